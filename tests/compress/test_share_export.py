"""A model that shares in every engine's files: each weight once, in FP32 and in INT8."""

from __future__ import annotations

import json
from contextlib import closing

import numpy as np
import pytest
import torch

import compress
from compress.artifacts.exporters import EXPORTERS, get_exporter
from compress.models.task_head import TaskHead
from compress.sharing.albert import Plan, to_albert
from compress.sharing.partly import share_part
from edgebert.types import Batch
from runtimes import available_backends
from runtimes.base import SessionOptions
from tests.compress.prune_models import build
from tests.compress.share_models import share_settings

LAYERS, GROUPS, WIDTH, NARROW, WORDS = 6, 2, 192, 48, 3000
HEAD = TaskHead(task="text-classification", labels=("bad", "good"))
LENGTH = 24
NODES = 310_000  # bytes of names and attributes; four copies of an attention: 330,000 in INT4


@pytest.fixture(
    scope="module", params=["all", "ffn", pytest.param("attention", marks=pytest.mark.slow)]
)
def model(request):
    """A BERT of six layers in two groups; sharing all, with tables of a quarter of its width."""
    whole = build(
        "Bert",
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        initializer_range=0.1,
    )
    plan = Plan(groups=GROUPS, embedding_size=NARROW, share=request.param)
    return to_albert(whole, plan) if plan.share == "all" else share_part(whole, plan)


def batch() -> Batch:
    ids = np.random.default_rng(0).integers(5, WORDS, (2, LENGTH))
    ones = np.ones_like(ids)
    ones[1, 9:] = 0
    return Batch(ids, ones, np.zeros_like(ids), dropped_tokens=np.zeros(2, dtype=np.int64))


def by_torch(model) -> np.ndarray:
    given = {name: torch.from_numpy(getattr(batch(), name)) for name in MODEL_INPUTS}
    with torch.no_grad():
        return model(**given).logits.numpy()


MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
ENGINES = [
    pytest.param("onnx", marks=pytest.mark.onnx),
    pytest.param("openvino", marks=pytest.mark.openvino),
    pytest.param("tflite", marks=[pytest.mark.tflite, pytest.mark.slow]),
]


@pytest.mark.parametrize("backend", ENGINES)
def test_a_shared_weight_is_stored_once_in_every_precision(model, backend, tmp_path):
    if backend not in available_backends() or EXPORTERS[backend].missing():
        pytest.skip(f"needs the exporter of {backend}")
    from runtimes import load_backend

    exporter = get_exporter(backend)
    paths = {
        name: tmp_path / getattr(exporter, f"{name}_path") for name in ("fp32", "int8", "int4")
    }
    for path in paths.values():
        path.parent.mkdir(exist_ok=True)
    exporter.export_fp32(model, HEAD, paths["fp32"], max_length=LENGTH)
    recipe = EXPORTERS[backend].default_recipes[0]
    calibration = [batch()] * 4
    for name, how in (("int8", recipe), ("int4", "weights-int4")):
        made = exporter.quantize(paths["fp32"], paths[name], recipe=how, calibration=calibration)
        assert made.missed == ()
    params = sum(parameter.numel() for parameter in model.parameters())
    matrices = sum(one.numel() for one in model.parameters() if one.dim() == 2)
    sizes = {name: _size(exporter, tmp_path, name) for name in paths}
    assert sizes["fp32"] <= 1.1 * 4 * params
    # what isn't a matrix stays in FP32, and a matrix has a scale a row; the rest is nodes
    rows = sum(len(one) for one in model.parameters() if one.dim() == 2)
    assert sizes["int8"] <= 1.1 * (matrices + 4 * (params - matrices) + 4 * rows) + NODES
    tables = sum(one.numel() for name, one in model.named_parameters() if "_embeddings" in name)
    products = 4.5 / 8 * (matrices - tables)  # 4 bits each, and 16 for every 32 of them
    rest = tables + 4 * (params - matrices) + 4 * rows
    assert sizes["int4"] <= 1.02 * (products + rest) + NODES
    for precision, tolerance in (("fp32", 1e-4), ("int8", 0.25), ("int4", 1.0)):
        with closing(load_backend(backend, paths[precision], SessionOptions(threads=1))) as opened:
            found = opened.run(batch())["logits"]
        np.testing.assert_allclose(found, by_torch(model), atol=tolerance)


def _size(exporter, folder, name: str) -> int:
    files = exporter.files(getattr(exporter, f"{name}_path"))
    return sum((folder / file).stat().st_size for file in files)


@pytest.mark.onnx
def test_a_checkpoint_that_shares_is_exported_and_trimmed(lab, tmp_path):
    output = tmp_path / "shared"
    compress.share(share_settings(lab, output, num_hidden_groups=1, embedding_size=16))
    own = {"train_file": lab.train, "dev_file": lab.train, "max_length": 16, "threads": 1}
    bundle = {"model": str(output), "output_dir": tmp_path / "bundle", "backend": ("onnx",)}
    result = compress.export(compress.ExportConfig(**own, **bundle))
    assert result.rows[0].gate.passed
    manifest = json.loads((tmp_path / "bundle" / "edgebert.json").read_text())
    assert [entry["step"] for entry in manifest["lineage"]] == ["train", "share", "export"]
    settings = {"model": str(output), "corpus": (lab.train,), "output_dir": tmp_path / "trimmed"}
    trimmed = compress.trim(compress.TrimConfig(**settings))
    assert trimmed.after.params < trimmed.before.params
