"""INT8 files: every weight is counted, none is missed in silence."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import transformers
from onnx import TensorProto

from compress.artifacts.onnx_weights import prepare, weight_nodes
from compress.artifacts.quantize_onnx import RECIPES, OnnxExporter
from edgebert.errors import InputError
from tests.compress.calibration_texts import some_texts
from tests.compress.exports import write_onnx
from tests.tiny import bert_config

# Per layer: query, key, value, attention output, up, down. Then the pooler and the classifier.
MATMULS, GATHERS = 2 * 6 + 2, 3
EXPORTER = OnnxExporter()
CALIBRATION = some_texts(8)
LOST = "/model/bert/encoder/layer.1/output/dense/MatMul"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    torch.manual_seed(0)
    config = bert_config(hidden_size=64, intermediate_size=128)
    path = tmp_path_factory.mktemp("fp32") / "model.onnx"
    write_onnx(transformers.BertForSequenceClassification(config), path, "text-classification")
    return path


def logits(path, ids):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ones, zeros = np.ones_like(ids), np.zeros_like(ids)
    every = {"input_ids": ids, "attention_mask": ones, "token_type_ids": zeros}
    return session.run(None, every)[0]


def test_every_matrix_and_table_is_converted(classifier, tmp_path):
    converted = EXPORTER.quantize(classifier, tmp_path / "q.onnx", recipe="dynamic")
    assert (converted.matmuls, converted.matmuls_total) == (MATMULS, MATMULS)
    assert (converted.gathers, converted.gathers_total) == (GATHERS, GATHERS)


def test_no_large_float_weight_is_left_in_the_file(classifier, tmp_path):
    EXPORTER.quantize(classifier, tmp_path / "q.onnx", recipe="dynamic")
    left = [
        tensor.name
        for tensor in onnx.load(tmp_path / "q.onnx").graph.initializer
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
    ]
    assert left == []


def test_preparing_for_int8_does_not_change_the_outputs(classifier, tmp_path):
    onnx.save(prepare(classifier), tmp_path / "prepared.onnx")
    ids = np.array([[2, 7, 9, 3]])
    found = logits(tmp_path / "prepared.onnx", ids)
    np.testing.assert_allclose(found, logits(classifier, ids), atol=1e-6)


def test_excluded_nodes_keep_their_float_weights(classifier, tmp_path):
    kept = [name for name in weight_nodes(prepare(classifier)) if "layer.1" in name]
    converted = EXPORTER.quantize(classifier, tmp_path / "q.onnx", recipe="dynamic", exclude=kept)
    assert len(kept) == 6
    assert converted.matmuls == MATMULS - 6
    assert set(weight_nodes(onnx.load(tmp_path / "q.onnx"))) == set(kept)


def test_a_tied_table_is_found_as_a_gather_and_as_a_matmul(tmp_path):
    model = transformers.BertForMaskedLM(bert_config(hidden_size=64, intermediate_size=128))
    write_onnx(model, tmp_path / "m.onnx", "fill-mask")
    converted = EXPORTER.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", recipe="dynamic")
    # the head's own transform and the decoder, in the place of pooler and classifier
    assert (converted.matmuls, converted.gathers) == (MATMULS, GATHERS)


def test_a_shared_layer_is_converted_everywhere(tmp_path):
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
    converted = EXPORTER.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", recipe="dynamic")
    assert converted.matmuls == 4 * 6 + 1  # and the projection of the embeddings


def test_every_weight_belongs_to_one_part(classifier):
    parts = EXPORTER.parts(classifier)
    names = [name for members in parts.values() for name in members]
    assert sorted(names) == sorted(weight_nodes(prepare(classifier)))
    assert set(parts) == {
        "embeddings",
        "head",
        *(f"layer.{i}/{part}" for i in (0, 1) for part in ("attention", "ffn-up", "ffn-down")),
    }


def test_nodes_that_share_a_weight_stay_together(tmp_path):
    config = transformers.AlbertConfig(
        vocab_size=500,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=256,
    )
    model = transformers.AlbertModel(config, add_pooling_layer=False)
    write_onnx(model, tmp_path / "m.onnx", "feature-extraction")
    nodes = weight_nodes(prepare(tmp_path / "m.onnx"))
    for members in EXPORTER.parts(tmp_path / "m.onnx").values():
        weights = {nodes[name].input[nodes[name].op_type == "MatMul"] for name in members}
        others = {
            node.input[node.op_type == "MatMul"]
            for name, node in nodes.items()
            if name not in members
        }
        assert not weights & others


def test_what_a_recipe_missed_is_named(classifier, tmp_path, monkeypatch):
    lazy = dataclasses.replace(
        RECIPES["dynamic"], convert=lambda model, target, _: onnx.save(model, target)
    )
    monkeypatch.setitem(RECIPES, "lazy", lazy)
    converted = EXPORTER.quantize(classifier, tmp_path / "q.onnx", recipe="lazy")
    assert converted.names == ()
    assert len(converted.missed) == MATMULS + GATHERS


def _without_node(graph, name):
    kept = [node for node in graph.node if node.name != name]
    graph.ClearField("node")
    graph.node.extend(kept)


def _with_computed_weight(graph, name):
    node = next(node for node in graph.node if node.name == name)
    node.input[1] = "made_elsewhere"


@pytest.mark.parametrize("spoil", [_without_node, _with_computed_weight])
def test_a_weight_that_is_neither_float_nor_int8_is_missed(
    classifier, tmp_path, monkeypatch, spoil
):
    def convert(model, target, exclude):
        RECIPES["dynamic"].convert(model, target, exclude)
        made = onnx.load(target)
        spoil(made.graph, f"{LOST}_quant")
        onnx.save(made, target)

    spoiled = dataclasses.replace(RECIPES["dynamic"], convert=convert)
    monkeypatch.setitem(RECIPES, "spoiled", spoiled)
    converted = EXPORTER.quantize(classifier, tmp_path / "q.onnx", recipe="spoiled")
    assert converted.missed == (LOST,)
    assert (converted.matmuls, converted.gathers) == (MATMULS - 1, GATHERS)


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_recipe_leaves_anything_out(classifier, tmp_path, recipe):
    converted = EXPORTER.quantize(
        classifier, tmp_path / "q.onnx", recipe=recipe, calibration=CALIBRATION
    )
    assert (len(converted.names), converted.missed) == (MATMULS + GATHERS, ())


def test_an_unknown_recipe_names_the_known_ones(classifier, tmp_path):
    with pytest.raises(InputError, match=r"Known recipes: .*dynamic"):
        EXPORTER.quantize(classifier, tmp_path / "q.onnx", recipe="magic")


def test_an_excluded_node_must_exist(classifier, tmp_path):
    with pytest.raises(InputError, match="no_such_node"):
        EXPORTER.quantize(
            classifier, tmp_path / "q.onnx", recipe="dynamic", exclude=["no_such_node"]
        )


def test_the_source_is_left_as_it_was(classifier, tmp_path):
    source = tmp_path / "source.onnx"
    shutil.copy(classifier, source)
    before = source.read_bytes()
    EXPORTER.quantize(source, tmp_path / "q.onnx", recipe="dynamic")
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.onnx", "source.onnx"]
