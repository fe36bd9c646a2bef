"""What is rounded in training is what engines compute: many times nearer to them than FP32 is."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compress.artifacts.exporters import get_exporter
from compress.artifacts.quantize_onnx import OnnxExporter
from compress.models.graph_module import GraphModule
from compress.models.heads import zero_heads
from compress.models.task_head import TaskHead
from compress.training.fake_quant import ROUNDINGS, Rounding, fake_quantized
from runtimes import SessionOptions, load_backend
from tests.compress.calibration_texts import some_texts
from tests.compress.prune_models import build

HEAD = TaskHead(task="text-classification", labels=("bad", "good"))
TEXTS = some_texts(30, most=16)
BY_TEXT, BY_TOKEN = (Rounding(steps=127, activations=rows) for rows in ("text", "token"))
# A number at the border of two steps may fall to either side, as sums are of another order: that
# moves a text in ten. Measured: all texts together 7 times nearer or more, the median one 9,000.
ALL_TEXTS, MEDIAN_TEXT = 4, 100


class Constant(nn.Module):
    """A table that an artifact has in FP32."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.weight = table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(ids, self.weight)


def by_torch(module: nn.Module, rounding: Rounding | None) -> np.ndarray:
    """Run texts one by one; give their logits."""
    names = module.input_names
    with torch.no_grad(), fake_quantized([module], rounding):
        rows = [module(*(torch.from_numpy(getattr(t, name)) for name in names))[0] for t in TEXTS]
    return torch.cat(rows).numpy()


def by_engine(backend: str, path) -> np.ndarray:
    opened = load_backend(backend, path, SessionOptions(threads=1))
    rows = [opened.run(text)["logits"] for text in TEXTS]
    opened.close()
    return np.concatenate(rows)


def times_nearer(module: nn.Module, rounding: Rounding, engine: np.ndarray) -> tuple[float, float]:
    """Say how much nearer rounded numbers are than FP32: all texts, and the median one."""
    rounded, plain = (
        np.abs(by_torch(module, how) - engine).max(axis=1) for how in (rounding, None)
    )
    whole = np.sqrt(np.square(plain).mean() / np.square(rounded).mean())
    return float(whole), float(np.median(plain) / np.median(rounded))


@pytest.mark.onnx
@pytest.mark.parametrize("family", ["Bert", "DistilBert", "Electra"])
@pytest.mark.parametrize("pruned", [False, True], ids=["whole", "without heads"])
def test_int8_by_text_is_what_onnx_runtime_computes_of_one_text(family, pruned, tmp_path):
    model = build(family)
    if pruned:  # zeros here, gone from the file
        zero_heads(model, [[0, 2], [1]])
    exporter = OnnxExporter()
    exporter.export_fp32(model, HEAD, tmp_path / "m.onnx", max_length=16)
    exporter.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", recipe="dynamic")
    engine, module = by_engine("onnx", tmp_path / "q.onnx"), GraphModule(model, HEAD)
    whole, median = times_nearer(module, BY_TEXT, engine)
    assert whole > ALL_TEXTS
    assert median > MEDIAN_TEXT
    assert max(times_nearer(module, BY_TOKEN, engine)) < 2  # which rows share a scale matters


@pytest.mark.tflite
def test_int8_by_token_is_what_litert_computes(tflite_lab, tmp_path):
    pytest.importorskip("ai_edge_quantizer")
    from tests.compress.tflite_files import EXPORTER

    EXPORTER.quantize(tflite_lab.path, tmp_path / "q.tflite", recipe="dynamic")
    engine, module = by_engine("tflite", tmp_path / "q.tflite"), copy.deepcopy(tflite_lab.module)
    embeddings = module.model.base_model.embeddings
    embeddings.position_embeddings = Constant(embeddings.position_embeddings)
    whole, median = times_nearer(module, BY_TOKEN, engine)
    assert whole > ALL_TEXTS
    assert median > MEDIAN_TEXT


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("onnx", marks=pytest.mark.onnx),
        pytest.param("openvino", marks=(pytest.mark.openvino, pytest.mark.slow)),
    ],
)
def test_int4_of_a_model_trained_in_it_is_nearer_to_its_fp32(backend, tmp_path):
    exporter, made = get_exporter(backend), build("Bert", hidden_size=64)
    source, target = (tmp_path / f"{n}{Path(exporter.fp32_path).suffix}" for n in ("m", "q"))
    distances = []
    for rounding in (None, ROUNDINGS["int4"]):
        with fake_quantized([made], rounding):
            pass  # no step: its weights go to where the artifact's steps are
        exporter.export_fp32(made, HEAD, source, max_length=16)
        exporter.quantize(source, target, recipe="weights-int4", calibration=TEXTS)
        found = by_engine(backend, target) - by_torch(GraphModule(made, HEAD), None)
        distances.append(float(np.sqrt(np.square(found).mean())))
    assert distances[1] < distances[0] / 2  # measured: a sixth and, on OpenVINO, a fourth
