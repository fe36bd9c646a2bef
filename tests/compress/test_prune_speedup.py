"""A speed that is asked for: found by timing, measured at the end, or refused with the best."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch

import compress
from compress.artifacts.exporters import EXPORTERS
from compress.distillation import pruning_speedup
from compress.distillation.pruning_speedup import (
    ENOUGH,
    MARGIN,
    TRIES,
    SpeedMeter,
    TorchEngine,
    choose_engine,
    find_sparsity,
)
from compress.models.task_head import TaskHead
from compress.pruning.result import Speed, format_result, load_result
from compress.pruning.units import cut_heads, cut_neurons
from edgebert.errors import BackendUnavailableError, InputError
from edgebert.types import Batch
from tests.compress.prune_models import batch, build, linears, logits, prune_settings
from tests.compress.steps import flags, run_step


class Law:
    """A model whose time is a fixed part, and a part that falls with the sparsity."""

    def __init__(self, fixed: float, power: float = 1.0) -> None:
        self.fixed, self.power, self.asked = fixed, power, []

    def __call__(self, sparsity: float) -> float:
        self.asked.append(sparsity)
        return 1 / (self.fixed + (1 - self.fixed) * (1 - sparsity) ** self.power)


@pytest.mark.parametrize(("fixed", "power"), [(0.1, 1.0), (0.3, 1.0), (0.1, 0.5), (0.1, 2.0)])
@pytest.mark.parametrize("wanted", [1.2, 2.0, 3.0])
def test_a_search_finds_about_the_least_sparsity_in_a_few_measurements(fixed, power, wanted):
    law = Law(fixed, power)
    found = find_sparsity(law, wanted=wanted, most=0.98)
    assert found is not None
    assert wanted <= law(found) <= wanted * (ENOUGH + 0.02)
    assert len(law.asked) - 1 <= TRIES + 1


def test_the_first_guess_is_right_where_time_falls_in_a_line():
    law = Law(0.2)
    found = find_sparsity(law, wanted=2.0, most=0.9)
    assert found == pytest.approx((1 - 0.5) / 0.8)  # 1 - 0.8 s is 0.5
    assert len(law.asked) == 2


def test_what_not_even_the_smallest_model_reaches_is_not_found():
    assert find_sparsity(Law(0.5), wanted=2.0, most=0.9) is None


def test_a_noisy_clock_ends_the_search_all_the_same():
    found = find_sparsity(lambda sparsity: 3.0 if sparsity > 0.5 else 1.0, wanted=2.0, most=0.9)
    assert found is not None
    assert found > 0.5


def test_the_engine_in_torch_runs_the_model_without_its_pruned_heads():
    model = build("Bert")
    cut_heads(model, [[0, 1], [3]])
    engine = TorchEngine(model, TaskHead(task="text-classification", labels=("a", "b")))
    given = batch()
    kinds = torch.zeros_like(given["input_ids"])
    arrays = [given["input_ids"].numpy(), given["attention_mask"].numpy(), kinds.numpy()]
    found = engine.run(Batch(*arrays, dropped_tokens=kinds[:, 0].numpy()))
    torch.testing.assert_close(torch.from_numpy(found["logits"]), logits(model), atol=1e-5, rtol=0)
    assert linears(engine._module.model, 0)["query"].out_features == 2 * 8


def test_the_first_engine_that_is_installed_is_timed_on(monkeypatch):
    assert choose_engine("torch") == "torch"
    installed = [name for name, spec in EXPORTERS.items() if spec.missing() is None]
    assert choose_engine("auto") == installed[0]
    monkeypatch.setattr(pruning_speedup, "EXPORTERS", {})
    assert choose_engine("auto") == "torch"


def test_an_engine_that_is_not_there_is_named_before_anything_is_cut(lab, tmp_path, monkeypatch):
    from compress.artifacts import exporters

    monkeypatch.setattr(exporters, "_missing", lambda name: "onnx")  # noqa: ARG005
    config = prune_settings(lab, tmp_path / "out", sparsity=0.5, backend="onnx")
    with pytest.raises(BackendUnavailableError, match="needs the package 'onnx'"):
        compress.prune(config)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def fast_clock(monkeypatch):
    """Time by the number of weights: a law instead of a clock."""

    def compare(_self, given, pruned):
        times = [
            sum(p.numel() for p in one._module.model.bert.encoder.parameters()) / 1e3
            for one in (given, pruned)
        ]
        return Speed(
            engine="torch",
            threads=1,
            tokens=16,
            before_ms=times[0],
            after_ms=times[1],
            core_share=1.0,
            quiet=True,
        )

    monkeypatch.setattr(SpeedMeter, "_compare", compare)


@pytest.mark.usefixtures("fast_clock")
def test_a_model_gets_as_fast_as_was_asked_for(lab, tmp_path):
    config = prune_settings(lab, tmp_path / "out", target_speedup=2.0, rounds=2, num_train_epochs=1)
    result = compress.prune(config)
    assert 2.0 <= result.speedup <= 2.0 * MARGIN * (ENOUGH + 0.05)
    # the clock counts weights, so half of them are gone
    assert result.after.layer_params == pytest.approx(result.before.layer_params / 2, rel=0.1)
    assert result.target_speedup == 2.0
    assert not result.warnings
    assert load_result(tmp_path / "out") == result
    said = format_result(result).splitlines()
    wanted = f"{result.speedup:.2f} times as fast, 2 asked for (torch, FP32, one text of 16 tokens"
    assert any(line.startswith(wanted) for line in said)
    assert not any("WARNING" in line for line in said)
    speed = dataclasses.replace(result.speed, core_share=0.5, quiet=False)
    last = format_result(dataclasses.replace(result, speed=speed)).splitlines()[-1]
    assert last.startswith("WARNING: The machine was busy while latency was measured (each thread")
    assert "got 50% of a core" in last


@pytest.mark.usefixtures("fast_clock")
def test_a_resumed_run_cuts_what_its_search_has_found(lab, tmp_path, monkeypatch):
    from compress.distillation import recovery

    config = prune_settings(lab, tmp_path / "out", target_speedup=1.5, num_train_epochs=1)
    train_student = recovery.train_student

    def interrupted(*_args, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr(recovery, "train_student", interrupted)
    with pytest.raises(KeyboardInterrupt, match="--resume"):
        compress.prune(config)
    plan = json.loads((tmp_path / "out.work" / "search" / "plan.json").read_text())
    monkeypatch.setattr(recovery, "train_student", train_student)
    monkeypatch.setattr(pruning_speedup, "plan_speedup", None)  # another search would fail
    assert run_step("prune", *flags(config), "--resume") == 0
    result = load_result(tmp_path / "out")
    assert result.before.neurons - result.after.neurons == plan["neurons"]
    assert result.before.heads - result.after.heads == plan["heads"]


@pytest.mark.usefixtures("fast_clock")
def test_a_speed_that_no_cut_gives_is_refused_with_the_best(lab, tmp_path):
    config = prune_settings(lab, tmp_path / "out", target_speedup=50.0, units="neurons")
    # 63 neurons of 65 weights in 2 layers of 17,088: 8,898 are left
    message = "50 can't be reached: with one neuron in each layer the model is 1.92 times as fast"
    with pytest.raises(InputError, match=message):
        compress.prune(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("fast_clock")
def test_a_slower_end_than_the_search_promised_is_told(lab, tmp_path, monkeypatch):
    config = prune_settings(lab, tmp_path / "out", target_speedup=1.5, num_train_epochs=0)
    monkeypatch.setattr(pruning_speedup, "MARGIN", 0.8)  # so the search is content with less
    result = compress.prune(config)
    (said,) = result.warnings
    assert f"1.5 times as fast was asked for, and {result.speedup:.2f} is measured" in said


@pytest.mark.onnx
def test_a_cut_is_timed_on_the_engine_that_runs_it(lab, tmp_path):
    pytest.importorskip("onnxruntime")
    config = prune_settings(lab, tmp_path / "out", sparsity=0.5, num_train_epochs=0, backend="onnx")
    result = compress.prune(config)
    assert result.speed.engine == "onnx"
    assert result.speed.threads == 1
    assert result.speed.before_ms > 0
    assert result.speed.after_ms > 0
    assert not (tmp_path / "out.work").exists()


def test_a_model_without_most_of_its_neurons_is_timed_as_faster(tmp_path):
    sizes = {"hidden_size": 128, "intermediate_size": 8192}
    model = build("Bert", **sizes)
    cut = copy.deepcopy(model)
    cut_neurons(cut, torch.rand(2, 8192), 16)
    head = TaskHead(task="text-classification", labels=("a", "b"))
    meter = SpeedMeter(
        engine="torch",
        threads=torch.get_num_threads(),
        tokens=np.arange(5, 45),
        max_length=64,
        folder=tmp_path / "latency",
    )
    with meter.beside(model, head) as timed:
        speed = timed(cut, head)
    assert speed.tokens == 32
    assert speed.ratio > 1.5  # a tenth of the products are left
    assert speed.ratio == speed.before_ms / speed.after_ms
