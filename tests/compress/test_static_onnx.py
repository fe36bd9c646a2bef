"""Static INT8 on ONNX Runtime: calibrated on real tokens alone, smoothed, and counted."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import transformers
from onnx import helper

from compress.artifacts.observe import observe
from compress.artifacts.onnx_weights import int8_nodes, prepare, weight_nodes
from compress.artifacts.quantize_onnx import OnnxExporter
from compress.artifacts.static_onnx import scale_of
from edgebert.errors import InputError
from runtimes.base import SessionOptions
from runtimes.onnx import OnnxBackend
from tests.compress.calibration_texts import one_text, padded, some_texts
from tests.compress.exports import write_onnx, write_wide_classifier

MATMULS, GATHERS = 2 * 6 + 2, 3
TEXTS = some_texts(24)
STATIC = ("static", "static-percentile", "static-entropy")


@pytest.fixture(scope="module")
def fp32(tmp_path_factory):
    return write_wide_classifier(tmp_path_factory.mktemp("fp32") / "model.onnx")


@pytest.fixture(scope="module")
def expected(fp32):
    return run(fp32, *TEXTS)


def run(path, *texts):
    """Run each text alone on the engine; give what comes first of its outputs, one row a text."""
    backend = OnnxBackend(path, SessionOptions(threads=1))
    found = [backend.run(text)[backend.outputs[0]] for text in texts]
    return np.concatenate(found) if len({one.shape for one in found}) == 1 else found


def distance(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def products_of(model):
    return [node for node in weight_nodes(model).values() if node.op_type == "MatMul"]


@pytest.mark.parametrize("recipe", STATIC)
def test_a_static_file_is_near_to_fp32_and_all_of_it_is_int8(fp32, tmp_path, expected, recipe):
    converted = OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe=recipe, calibration=TEXTS)
    assert (converted.matmuls, converted.gathers, converted.missed) == (MATMULS, GATHERS, ())
    assert distance(run(tmp_path / "q.onnx", *TEXTS), expected) < 0.06


def test_the_engine_multiplies_every_product_of_the_layers_in_8_bits(fp32, tmp_path):
    """Of the head's two, on one vector a text, it turns the weights back."""
    OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe="static", calibration=TEXTS)
    settings = ort.SessionOptions()
    settings.optimized_model_filepath = str(tmp_path / "as_run.onnx")
    settings.log_severity_level = 4  # it warns that the file is for this machine alone
    ort.InferenceSession(str(tmp_path / "q.onnx"), settings, providers=["CPUExecutionProvider"])
    kinds = [node.op_type for node in onnx.load(tmp_path / "as_run.onnx").graph.node]
    eight_bits = ("MatMulIntegerToFloat", "QGemm", "QLinearMatMul")
    assert sum(kinds.count(kind) for kind in eight_bits) == 2 * 6
    assert kinds.count("MatMul") + kinds.count("FusedMatMul") == 2 * 2  # attention's own


def test_padding_is_no_activation(fp32):
    model = prepare(fp32)
    alone = observe(model, products_of(model), TEXTS)
    together = observe(model, products_of(model), [padded(TEXTS)])
    for name, histogram in alone.histograms.items():
        np.testing.assert_array_equal(histogram.counts, together.histograms[name].counts)
        assert histogram.min_max() == together.histograms[name].min_max()


def test_smoothing_moves_the_same_part_of_the_range_that_the_paper_says(fp32):
    model = prepare(fp32)
    node = weight_nodes(model)["/model/bert/encoder/layer.0/output/dense/MatMul"]
    found = observe(model, [node], TEXTS, strength=0.5).smoothing[node.input[0]]
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(
        [helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None)]
    )
    session = ort.InferenceSession(watched.SerializeToString())
    seen = []
    for text in TEXTS:
        feed = {one.name: getattr(text, one.name) for one in session.get_inputs()}
        seen.append(np.abs(session.run([node.input[0]], feed)[0][0]).max(axis=0))
    (weight,) = (t for t in model.graph.initializer if t.name == node.input[1])
    rows = np.abs(onnx.numpy_helper.to_array(weight)).max(axis=1)
    np.testing.assert_allclose(found, np.sqrt(np.max(seen, axis=0)) / np.sqrt(rows), rtol=1e-5)


def test_smoothing_of_strength_0_leaves_the_activations_ranges_to_the_weights_alone(fp32):
    model = prepare(fp32)
    nodes = products_of(model)
    found = observe(model, nodes, TEXTS, strength=0.0).smoothing
    node = next(node for node in nodes if "layer.0/output" in node.name)
    (weight,) = (t for t in model.graph.initializer if t.name == node.input[1])
    rows = np.abs(onnx.numpy_helper.to_array(weight)).max(axis=1)
    np.testing.assert_allclose(found[node.input[0]], 1 / rows, rtol=1e-5)


def test_an_outlier_channel_costs_less_with_smoothing_than_without(
    fp32, tmp_path, expected, monkeypatch
):
    """One channel of the FFN a thousand times larger, which its row of the weights undoes."""
    model = onnx.load(fp32)
    tensors = {t.name: t for t in model.graph.initializer}
    nodes = {node.name: node for node in prepare(fp32).graph.node}
    down = nodes["/model/bert/encoder/layer.0/output/dense/MatMul"]
    matrix = onnx.numpy_helper.to_array(tensors[down.input[1]]).copy()
    matrix[0] *= 1e-3
    tensors[down.input[1]].CopyFrom(onnx.numpy_helper.from_array(matrix, down.input[1]))
    place = next(i for i, node in enumerate(model.graph.node) if node.name == down.name)
    gain = np.ones(len(matrix), dtype=np.float32)
    gain[0] = 1e3
    model.graph.initializer.append(onnx.numpy_helper.from_array(gain, "gain"))
    scaled = helper.make_node("Mul", [down.input[0], "gain"], ["scaled"], name="scaled")
    model.graph.node[place].input[0] = "scaled"
    model.graph.node.insert(place, scaled)
    onnx.save(model, tmp_path / "outlier.onnx")
    errors = {}
    for strength in (0.75, None):
        if strength is None:  # no smoothing at all
            monkeypatch.setattr(
                "compress.artifacts.observe._smoothing",
                lambda _, __, largest, **___: {
                    name: np.ones_like(peaks) for name, peaks in largest.items()
                },
            )
        OnnxExporter().quantize(
            tmp_path / "outlier.onnx", tmp_path / "q.onnx", recipe="static", calibration=TEXTS
        )
        errors[strength] = distance(run(tmp_path / "q.onnx", *TEXTS), expected)
    assert errors[0.75] < 0.06
    assert errors[None] > 3 * errors[0.75]


def test_parts_that_stay_fp32_have_floats_on_both_sides(fp32, tmp_path):
    kept = [name for name in weight_nodes(prepare(fp32)) if "layer.1" in name]
    converted = OnnxExporter().quantize(
        fp32, tmp_path / "q.onnx", recipe="static", exclude=kept, calibration=TEXTS
    )
    assert converted.matmuls == MATMULS - 6
    assert set(weight_nodes(onnx.load(tmp_path / "q.onnx"))) == set(kept)


def test_a_product_whose_activation_stays_float_does_not_count_as_int8(fp32, tmp_path):
    OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe="static", calibration=TEXTS)
    model = onnx.load(tmp_path / "q.onnx")
    node = next(n for n in model.graph.node if n.op_type == "MatMul" and "classifier" in n.name)
    assert node.name in int8_nodes(model)
    node.input[0] = node.input[0].removesuffix("_through_uint8")
    assert node.name not in int8_nodes(model)


def test_a_shared_layer_is_stored_once_and_smoothed_alike_everywhere(tmp_path):
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=500,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=256,
    )
    model = transformers.AlbertModel(config, add_pooling_layer=False)
    write_onnx(model, tmp_path / "m.onnx", "feature-extraction")
    converted = OnnxExporter().quantize(
        tmp_path / "m.onnx", tmp_path / "q.onnx", recipe="static", calibration=TEXTS
    )
    assert (converted.matmuls, converted.missed) == (4 * 6 + 1, ())
    whole = [t for t in onnx.load(tmp_path / "q.onnx").graph.initializer if len(t.dims) == 2]
    assert len(whole) == 6 + 1 + GATHERS
    wanted, found = (run(tmp_path / name, TEXTS[0]) for name in ("m.onnx", "q.onnx"))
    assert distance(found, wanted) < 0.1


def test_recipes_and_trials_of_one_model_share_a_calibration(fp32, tmp_path, caplog):
    exporter = OnnxExporter()
    with caplog.at_level(logging.INFO, logger="compress.artifacts.observe"):
        for recipe in STATIC:
            exporter.quantize(fp32, tmp_path / "q.onnx", recipe=recipe, calibration=TEXTS)
        assert len(caplog.messages) == 1
        exporter.quantize(fp32, tmp_path / "q.onnx", recipe="static", calibration=TEXTS[:4])
        assert len(caplog.messages) == 2


@pytest.mark.parametrize("recipe", STATIC)
def test_a_static_recipe_asks_for_texts(fp32, tmp_path, recipe):
    with pytest.raises(InputError, match="needs texts to calibrate on"):
        OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe=recipe)


def test_zero_is_exact_and_the_range_fits_in_8_bits():
    for low, high in ((-1.0, 3.0), (0.5, 2.0), (-4.0, -1.0), (0.0, 0.0)):
        scale, zero = scale_of(low, high)
        assert 0 <= zero <= 255
        ends = np.array([-zero, 255 - zero]) * scale
        assert ends[0] <= min(low, 0) + scale
        assert ends[1] >= max(high, 0) - scale


def int8_matrices(path):
    """Give the weights of products."""
    return [
        onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(path).graph.initializer
        if tensor.data_type == onnx.TensorProto.INT8
        and len(tensor.dims) == 2
        and "embeddings" not in tensor.name
    ]


@pytest.mark.parametrize("recipe", ["dynamic-7bit", "static-7bit"])
def test_seven_bits_fit_what_a_processor_without_vnni_adds_up(fp32, tmp_path, expected, recipe):
    """In 16 bits, two products at a time; so it needs no option of the engine to be right."""
    OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe=recipe, calibration=TEXTS)
    assert max(int(np.abs(m.astype(int)).max()) for m in int8_matrices(tmp_path / "q.onnx")) == 64
    assert 2 * 255 * 64 < 2**15
    session = ort.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"])
    inputs = [node.name for node in session.get_inputs()]
    found = [session.run(None, {name: getattr(text, name) for name in inputs})[0] for text in TEXTS]
    assert distance(np.concatenate(found), expected) < 0.1


def test_a_text_alone_gives_what_it_gives_beside_others(fp32, tmp_path):
    OnnxExporter().quantize(fp32, tmp_path / "q.onnx", recipe="static", calibration=TEXTS)
    long, short = one_text(np.arange(5, 25)), one_text([7, 9, 11])
    together = run(tmp_path / "q.onnx", padded([long, short]))
    np.testing.assert_allclose(together[1], run(tmp_path / "q.onnx", short)[0], atol=1e-5)
