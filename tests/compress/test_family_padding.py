"""Padding has no say in what a file gives, for every family that can be compressed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from compress.artifacts.exporters import EXPORTERS, get_exporter
from compress.models.files import FAMILIES
from compress.models.task_head import TaskHead
from edgebert.types import Batch
from runtimes import SessionOptions, load_backend

LENGTH = 9
SIZES = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 66,
    "pad_token_id": 0,
    "initializer_range": 0.2,
}
OWN: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 32},
    "camembert": {"pad_token_id": 1},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
}


def padded_to(length: int, pad_id: int) -> Batch:
    ids = np.full((1, length), pad_id)
    ids[0, :LENGTH] = np.random.default_rng(0).integers(5, 100, LENGTH)
    mask = (np.arange(length) < LENGTH).astype(np.int64)[None]
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(1, dtype=np.int64))


# LiteRT pads a text to its signature whatever the batch's padding is.
@pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("onnx", "openvino")],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_has_one_result_however_far_it_is_padded(family, backend, tmp_path):
    if missing := EXPORTERS[backend].missing():
        pytest.skip(f"needs the package {missing!r}: pip install 'edgebert[compress]'")
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **OWN.get(family, {})})
    model = AutoModelForSequenceClassification.from_config(config).eval()
    exporter = get_exporter(backend)
    path = tmp_path / exporter.fp32_path
    path.parent.mkdir()
    exporter.export_fp32(model, TaskHead(task="text-classification"), path, max_length=64)
    opened = load_backend(backend, path, SessionOptions(threads=1, max_length=64))
    alone, some, far = (
        opened.run(padded_to(length, config.pad_token_id))["logits"] for length in (LENGTH, 16, 64)
    )
    opened.close()
    assert np.abs(alone).max() > 0.01
    np.testing.assert_allclose(some, alone, atol=1e-5)
    np.testing.assert_allclose(far, alone, atol=1e-5)
