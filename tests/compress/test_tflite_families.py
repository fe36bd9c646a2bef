"""Every task and every family as TFLite: torch's outputs, weights once, all of them INT8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

pytest.importorskip("litert_torch")
pytest.importorskip("ai_edge_quantizer")
pytestmark = [pytest.mark.tflite, pytest.mark.slow]

from compress.artifacts.quantize_tflite import RECIPES, TfliteExporter  # noqa: E402
from compress.artifacts.tflite_model import read_tflite  # noqa: E402
from compress.models.graph_module import GraphModule  # noqa: E402
from compress.models.task_head import TaskHead  # noqa: E402
from edgebert.types import Batch  # noqa: E402
from tests.compress.tflite_files import by_engine, by_torch  # noqa: E402

LENGTHS = (5, 12, 13, 24, 1)
EXPORTER = TfliteExporter(buckets=(12,))
ONE_LENGTH = TfliteExporter(buckets=())  # a signature takes seconds to convert
SMALL = {
    "vocab_size": 3000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
DISTILBERT = {
    "vocab_size": 3000,
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 128,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
HEADS = {
    "text-classification": "ForSequenceClassification",
    "regression": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
    "multiple-choice": "ForMultipleChoice",
    "fill-mask": "ForMaskedLM",
    "feature-extraction": "Model",
}


def build(family: str, task: str, **changes: Any) -> tuple[Any, TaskHead]:
    torch.manual_seed(0)
    settings = DISTILBERT if family == "DistilBert" else SMALL
    labels = {"num_labels": 1} if task == "regression" else {}
    config = getattr(transformers, f"{family}Config")(**{**settings, **labels, **changes})
    model = getattr(transformers, family + HEADS[task])(config).eval()
    for parameter in model.parameters():  # no bias is 0, no scale of a norm 1
        parameter.data += 0.02 * torch.randn_like(parameter)
    if family == "MobileBert":  # a token sees its neighbours' rows: that of padding stays 0
        model.get_input_embeddings().weight.data[config.pad_token_id] = 0
    if task == "feature-extraction":
        return model, TaskHead(task=task, pooling="mean", dense=torch.nn.Linear(64, 24))
    return model, TaskHead(task=task)


def texts(*, pad_id: int) -> Batch:
    draw = np.random.default_rng(0)
    shape = (len(LENGTHS), max(LENGTHS))
    mask = (np.arange(shape[1]) < np.array(LENGTHS)[:, None]).astype(np.int64)
    ids = np.where(mask == 1, draw.integers(5, 2999, shape), pad_id)
    kinds = (np.arange(shape[1]) > 3) * mask
    return Batch(ids, mask, kinds, np.zeros(len(LENGTHS), dtype=np.int64))


def worst_difference(module: GraphModule, path: Any, batch: Batch) -> float:
    found, expected = by_engine(path, batch), by_torch(module, batch)
    assert set(found) == set(module.output_names)
    return max(float(np.abs(found[name] - expected[name]).max()) for name in found)


@pytest.mark.parametrize("task", HEADS)
def test_every_task_gives_torchs_outputs(task, tmp_path):
    model, head = build("Bert", task)
    EXPORTER.export_fp32(model, head, tmp_path / "m.tflite", max_length=24)
    module = GraphModule(model, head)
    assert worst_difference(module, tmp_path / "m.tflite", texts(pad_id=0)) < 1e-4


@pytest.mark.parametrize(
    ("family", "changes", "oldest"),
    [
        ("Roberta", {"type_vocab_size": 1}, "tflite-runtime 2.14"),
        ("DistilBert", {}, "tflite-runtime 2.14"),
        ("Electra", {"embedding_size": 32}, "tflite-runtime 2.14"),
        ("Albert", {"embedding_size": 32, "num_hidden_layers": 3}, "tflite-runtime 2.14"),
        ("MPNet", {}, "tflite-runtime 2.14"),
        (
            "MobileBert",
            {"embedding_size": 32, "intra_bottleneck_size": 32, "intermediate_size": 64},
            "tflite-runtime 2.14",
        ),
        (
            "DebertaV2",
            {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
            "ai-edge-litert 2.1",
        ),
        (
            "ModernBert",
            {
                "pad_token_id": 0,
                "cls_token_id": 1,
                "sep_token_id": 2,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            "ai-edge-litert 2.1",
        ),
    ],
)
def test_every_family_gives_torchs_outputs_and_becomes_int8(family, changes, oldest, tmp_path):
    model, head = build(family, "fill-mask", **changes)
    exported = ONE_LENGTH.export_fp32(model, head, tmp_path / "m.tflite", max_length=24)
    assert exported.min_engine == oldest
    module = GraphModule(model, head)
    batch = texts(pad_id=model.config.pad_token_id or 0)
    assert worst_difference(module, tmp_path / "m.tflite", batch) < 1e-4
    for recipe in RECIPES:
        converted = ONE_LENGTH.quantize(
            tmp_path / "m.tflite", tmp_path / "q.tflite", recipe=recipe, calibration=[batch]
        )
        assert converted.missed == ()
        tied = RECIPES[recipe].precision == "int4" and family != "MobileBert"
        assert converted.matmuls + tied == converted.matmuls_total > 6  # a tied table stays INT8


def weight_bytes(path: Any) -> int:
    return sum(len(one.data) for one in read_tflite(path).buffers if one.data is not None)


@pytest.mark.parametrize("family", ["Albert", "Bert"])
def test_a_weight_that_is_used_twice_is_stored_once_in_every_precision(family, tmp_path):
    changes = {"embedding_size": 32, "num_hidden_layers": 6} if family == "Albert" else {}
    model, head = build(family, "fill-mask", **changes)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    EXPORTER.export_fp32(model, head, tmp_path / "m.tflite", max_length=24)
    positions = 4 * 36 * 64  # the rows of 12 and of 24 positions stand in FP32
    assert weight_bytes(tmp_path / "m.tflite") < 4 * parameters + positions
    for recipe in RECIPES:
        EXPORTER.quantize(
            *(tmp_path / "m.tflite", tmp_path / "q.tflite"),
            recipe=recipe,
            calibration=[texts(pad_id=0)],
        )
        vectors = 4 * 5 * 3000  # biases, norms, and one scale a row
        assert weight_bytes(tmp_path / "q.tflite") < parameters + positions + vectors


def test_one_of_two_uses_of_a_weight_cannot_be_excluded_alone(tmp_path):
    model, head = build("Bert", "fill-mask")
    EXPORTER.export_fp32(model, head, tmp_path / "m.tflite", max_length=24)
    table = next(name for name in EXPORTER.parts(tmp_path / "m.tflite")["embeddings"])
    for recipe in (name for name, one in RECIPES.items() if one.precision == "int8"):
        converted = EXPORTER.quantize(
            tmp_path / "m.tflite", tmp_path / "q.tflite", recipe=recipe, exclude=[table]
        )
        assert converted.missed == ()
        assert converted.gathers == converted.gathers_total - 1
        assert converted.matmuls == converted.matmuls_total - 1
