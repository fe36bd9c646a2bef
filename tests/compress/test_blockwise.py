"""INT8 in blocks: exact on what 8 bits can hold, and no say of a text in its mates' results."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
import torch
import transformers

from compress.artifacts.blockwise import BLOCK_SIZE, quantize_blocks
from compress.artifacts.quantize_onnx import OnnxExporter
from tests.compress.exports import write_onnx
from tests.tiny import bert_config


def test_a_block_is_scaled_by_its_own_largest_weight():
    weight = np.zeros((2 * BLOCK_SIZE, 1), dtype=np.float32)
    weight[0], weight[1] = 127.0, -3.0  # first block: one a step
    weight[BLOCK_SIZE] = 0.5  # second block: 0.5 / 127 a step
    whole, scales = quantize_blocks(weight)
    assert whole.shape == (1, 2, BLOCK_SIZE)
    assert (whole[0, 0, 0], whole[0, 0, 1], whole[0, 1, 0]) == (255, 125, 255)
    np.testing.assert_allclose(scales, [[1.0, 0.5 / 127]])


def test_an_inner_dimension_that_fills_no_block_is_padded_with_zeros():
    whole, _ = quantize_blocks(np.ones((3, 2), dtype=np.float32))
    assert whole[0, 0, :4].tolist() == [255, 255, 255, 128]


@pytest.fixture(scope="module", params=["blockwise", "weights"])
def paths(request, tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    config = bert_config(hidden_size=64, intermediate_size=128)
    model = transformers.BertForSequenceClassification(config)
    write_onnx(model, folder / "fp32.onnx", "text-classification")
    converted = OnnxExporter().quantize(
        folder / "fp32.onnx", folder / "int8.onnx", recipe=request.param
    )
    assert converted.missed == ()
    return folder / "fp32.onnx", folder / "int8.onnx"


def logits(path, ids, mask):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return session.run(None, feed)[0]


def test_logits_stay_close_to_fp32(paths):
    ids = np.random.default_rng(0).integers(5, 60, (4, 12))
    fp32, int8 = (logits(path, ids, np.ones_like(ids)) for path in paths)
    assert np.abs(fp32 - int8).max() < 0.02 * np.abs(fp32).max() + 0.005


def test_batch_mates_and_padding_have_no_say(paths):
    ids = np.random.default_rng(1).integers(5, 60, (3, 16))
    mask = np.ones_like(ids)
    mask[0, 5:] = 0
    together = logits(paths[1], ids, mask)
    alone = logits(paths[1], ids[:1, :5], mask[:1, :5])
    np.testing.assert_allclose(together[0], alone[0], atol=1e-6)
