"""INT4 on ONNX Runtime: 4.5 bits a weight, tables and what is left out in 8, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compress.artifacts.four_bits import round_table
from compress.artifacts.onnx_weights import prepare, weight_nodes
from compress.artifacts.quantize_onnx import OnnxExporter
from edgebert.errors import InputError
from runtimes.base import SessionOptions
from runtimes.onnx import OnnxBackend
from tests.compress.calibration_texts import one_text, padded, some_texts
from tests.compress.exports import write_wide_classifier

pytestmark = pytest.mark.onnx

MATMULS, GATHERS = 2 * 6 + 2, 3
TEXTS = some_texts(24)
FOUR = "weights-int4"


@pytest.fixture(scope="module")
def fp32(tmp_path_factory):
    return write_wide_classifier(tmp_path_factory.mktemp("fp32") / "model.onnx")


@pytest.fixture(scope="module")
def made(fp32):
    target = fp32.with_name("q4.onnx")
    return target, OnnxExporter().quantize(fp32, target, recipe=FOUR, calibration=TEXTS)


def logits(path, *texts):
    backend = OnnxBackend(path, SessionOptions(threads=1))
    return np.concatenate([backend.run(text)["logits"] for text in texts])


def attributes(node):
    return {one.name: one.i for one in node.attribute}


def stored(path):
    """Give the file's matrices of 4 bits, ``[inner, outer]``, by the operator's own rules."""
    graph = onnx.load(path).graph
    tensors = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    casts = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cast"}
    found = {}
    for node in graph.node:
        if node.op_type == "MatMulNBits" and attributes(node)["bits"] == 4:
            packed, scales = tensors[node.input[1]], tensors[casts[node.input[2]]]
            steps = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:2], -1)
            values = (steps.astype(np.float32) - 8) * scales[:, :, None].astype(np.float32)
            found[node.name] = values.reshape(len(packed), -1)[:, : attributes(node)["K"]].T
    return found


def test_every_product_has_4_bits_and_every_table_8(made):
    _, converted = made
    assert (converted.matmuls, converted.matmuls_total) == (MATMULS, MATMULS)
    assert (converted.gathers, converted.gathers_total) == (GATHERS, GATHERS)
    assert converted.missed == ()


def test_a_weight_takes_four_and_a_half_bits(fp32, made):
    target, _ = made
    tensors = {one.name: one for one in onnx.load(target).graph.initializer}
    graph = prepare(fp32).graph
    counts = {one.name: np.prod(one.dims) for one in graph.initializer}
    products = [n for n in weight_nodes(prepare(fp32)).values() if n.op_type == "MatMul"]
    ends = ("_int4", "half_scales")
    found = sum(len(one.raw_data) for name, one in tensors.items() if name.endswith(ends))
    assert found == 4.5 / 8 * sum(counts[node.input[1]] for node in products)


def test_the_engine_computes_with_the_numbers_of_the_file(fp32, made, tmp_path):
    target, _ = made
    model = prepare(fp32)
    weights = {one.name: one for one in model.graph.initializer}
    for name, values in stored(target).items():
        weight = weight_nodes(model)[name].input[1]
        weights[weight].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), weight))
    onnx.save(model, tmp_path / "same.onnx")
    same, expected = logits(tmp_path / "same.onnx", *TEXTS), logits(fp32, *TEXTS)
    # what is left are tables and activations in 8 bits
    distance = np.linalg.norm(logits(target, *TEXTS) - same) / np.linalg.norm(expected)
    assert distance < 0.05 < np.linalg.norm(same - expected) / np.linalg.norm(expected)


def test_what_is_left_out_has_8_bits(fp32, tmp_path):
    kept = [name for name in weight_nodes(prepare(fp32)) if "layer.1" in name]
    converted = OnnxExporter().quantize(
        fp32, tmp_path / "q.onnx", recipe=FOUR, exclude=kept, calibration=TEXTS
    )
    nodes = [n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "MatMulNBits"]
    assert Counter(attributes(node)["bits"] for node in nodes) == {4: MATMULS - 6, 8: 6}
    assert (converted.matmuls, converted.missed) == (MATMULS - 6, ())
    assert not set(kept) & set(converted.names)


def test_a_product_that_is_still_float_is_missed(fp32, tmp_path, monkeypatch):
    lost = "/model/bert/encoder/layer.1/output/dense/MatMul"
    real = "compress.artifacts.onnx_four_bits.is_product"
    from compress.artifacts.blockwise import is_product

    monkeypatch.setattr(real, lambda node, weights: node.name != lost and is_product(node, weights))
    converted = OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe=FOUR, calibration=TEXTS)
    assert (converted.matmuls, converted.missed) == (MATMULS - 1, (lost,))


def test_a_text_alone_gives_what_it_gives_beside_others(made):
    target, _ = made
    long, short = one_text(np.arange(5, 25)), one_text([7, 9, 11])
    together = logits(target, padded([long, short]))
    np.testing.assert_allclose(together[1], logits(target, short)[0], atol=1e-5)


def test_the_table_of_words_can_have_4_bits_too(fp32, made, tmp_path):
    exporter = OnnxExporter()
    target = tmp_path / "q.onnx"
    converted = exporter.quantize(fp32, target, recipe="tables-int4", calibration=TEXTS)
    assert (converted.matmuls, converted.gathers, converted.missed) == (MATMULS, GATHERS, ())
    (look,) = (n for n in onnx.load(target).graph.node if n.op_type == "GatherBlockQuantized")
    assert look.name.endswith("word_embeddings/Gather")
    assert converted.size_bytes < made[1].size_bytes
    words = np.concatenate([text.input_ids[0] for text in TEXTS])
    # the words' own vectors, by the same numbers rounded here
    table = next(
        numpy_helper.to_array(one)
        for one in prepare(fp32).graph.initializer
        if one.name == weight_nodes(prepare(fp32))[look.name].input[0]
    )
    rounded = round_table(table).values()[:, : table.shape[1]]
    error = np.linalg.norm(rounded[words] - table[words]) / np.linalg.norm(table[words])
    assert 0.02 < error < 0.12
    model = onnx.load(fp32)
    for one in model.graph.initializer:
        if one.dims == list(table.shape) and np.array_equal(numpy_helper.to_array(one), table):
            one.CopyFrom(numpy_helper.from_array(rounded.astype(np.float32), one.name))
    onnx.save(model, tmp_path / "same.onnx")
    exporter.quantize(tmp_path / "same.onnx", tmp_path / "8.onnx", recipe=FOUR, calibration=TEXTS)
    # here the table has 8 bits of what 4 bits are there; weights are rounded by the first's inputs
    near = np.linalg.norm(logits(target, *TEXTS) - logits(tmp_path / "8.onnx", *TEXTS))
    assert near < 0.15 * np.linalg.norm(logits(fp32, *TEXTS))


def test_a_table_that_is_left_out_has_8_bits(fp32, tmp_path):
    kept = [name for name in weight_nodes(prepare(fp32)) if "word_embeddings" in name]
    converted = OnnxExporter().quantize(
        fp32, tmp_path / "q.onnx", recipe="tables-int4", exclude=kept, calibration=TEXTS
    )
    kinds = [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]
    assert "GatherBlockQuantized" not in kinds
    assert (converted.gathers, converted.missed) == (GATHERS, ())


def test_it_asks_for_texts(fp32, tmp_path):
    with pytest.raises(InputError, match="INT4 recipe 'weights-int4' needs texts"):
        OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe=FOUR)


def test_trials_of_one_model_round_its_weights_once(fp32, tmp_path, caplog):
    exporter = OnnxExporter()
    with caplog.at_level("INFO", logger="compress.artifacts.four_bits"):
        for exclude in ([], ["/model/classifier/Gemm"]):
            exporter.quantize(
                fp32, tmp_path / "q.onnx", recipe=FOUR, exclude=exclude, calibration=TEXTS
            )
    assert len(caplog.messages) == 1
