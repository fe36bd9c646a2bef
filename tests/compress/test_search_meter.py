"""What a shape takes, measured with random weights on ONNX Runtime, once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from transformers import BertForSequenceClassification

from compress.models.architecture import Architecture
from compress.models.task_head import TaskHead
from compress.searching import meter as meter_module
from compress.searching.budget import Budget
from compress.searching.config import SearchConfig
from compress.searching.estimate import Estimator
from compress.searching.meter import ShapeMeter
from compress.searching.shapes import Shape
from tests.tiny import bert_config

SMALL = Architecture(1, 64, 2, 128)
HEAD = TaskHead(
    task="text-classification", labels=("bad", "good"), problem_type="single_label_classification"
)


@pytest.fixture(scope="module")
def teacher():
    ids = [np.arange(2, 30), np.arange(5, 25)]
    return SimpleNamespace(
        model=BertForSequenceClassification(
            bert_config(vocab_size=3000, hidden_size=128, intermediate_size=256)
        ),
        encoded=SimpleNamespace(
            dev=SimpleNamespace(head=HEAD, token_stream=np.arange(2, 3000)),
            train=SimpleNamespace(rows=SimpleNamespace(encoded=SimpleNamespace(input_ids=ids))),
        ),
    )


@pytest.fixture
def meter(teacher, tmp_path):
    config = SearchConfig(
        teacher="minilm",
        max_size="8MB",
        max_latency="3ms",
        max_length=32,
        recipe=("dynamic", "weights-int4"),
    )
    return ShapeMeter(Estimator(teacher.model), teacher, config, tmp_path)


def test_a_shape_is_measured_in_each_precision_and_only_once(meter, teacher, tmp_path, monkeypatch):
    assert meter.precisions == ("fp32", "int8", "int4")
    costs = meter.costs(Shape(SMALL, 1000))
    assert set(costs) == {"fp32", "int8", "int4"}
    assert costs["fp32"].size_bytes > 2 * costs["int8"].size_bytes
    assert all(cost.latency_ms > 0 for cost in costs.values())

    monkeypatch.setattr(meter_module, "quietest_latency", None)  # would fail where it is called
    again = ShapeMeter(Estimator(teacher.model), teacher, meter._config, tmp_path)
    assert again.costs(Shape(SMALL, 1000)) == costs
    larger = again.costs(Shape(SMALL, 2000))
    assert larger["fp32"].size_bytes - costs["fp32"].size_bytes == 1000 * 64 * 4
    assert larger["int8"].size_bytes - costs["int8"].size_bytes == 1000 * 64
    assert larger["int4"].size_bytes - costs["int4"].size_bytes == 1000 * 64  # tables stay INT8
    assert larger["fp32"].latency_ms == costs["fp32"].latency_ms


@pytest.mark.parametrize("quiet", [True, False])
def test_what_computes_as_much_as_a_shape_that_was_too_slow_is_not_measured(
    meter, monkeypatch, quiet
):
    costs = {"fp32": {"size_bytes": 9, "latency_ms": 9.0}}
    costs["int8"] = {"size_bytes": 9, "latency_ms": 4.0}
    monkeypatch.setattr(meter, "_measure", lambda _: (costs, quiet))
    budget = Budget(max_size_bytes=10**9, max_latency_ms=3.0)
    small, deeper = Shape(SMALL, 500), Shape(Architecture(2, 64, 2, 128), 900)
    assert meter.too_slow(small, budget) == ""
    meter.costs(small)
    reason = "L=1,H=64,A=2,I=128, which computes less, took 4.00 ms"
    assert meter.too_slow(deeper, budget) == (reason if quiet else "")  # busy clocks prove nothing
    assert meter.too_slow(Shape(Architecture(1, 32, 1, 128), 500), budget) == ""
    near = Budget(max_size_bytes=10**9, max_latency_ms=3.8)  # a clock isn't so sure
    assert meter.too_slow(deeper, near) == ""
    assert meter.too_slow(deeper, Budget(max_drop=0.1, max_size_bytes=9)) == ""
