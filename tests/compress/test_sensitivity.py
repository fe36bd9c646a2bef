"""INT8 that fails its gate gets its worst parts back in FP32, or is refused."""

from __future__ import annotations

import pytest
import torch
import transformers

from compress.onnx_graph import export_onnx
from compress.quantize_onnx import prepare, weight_nodes
from compress.report_records import GateRecord
from compress.sensitivity import part_name, quantize_until_passed, rank_parts, weight_parts
from tests.tiny import bert_config


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(
        bert_config(hidden_size=64, intermediate_size=128)
    )
    path = tmp_path_factory.mktemp("fp32") / "model.onnx"
    export_onnx(model, path, task="text-classification")
    return path


def float_weights(path):
    import onnx

    return set(weight_nodes(onnx.load(path)))


def parts_in_int8(source, path):
    left = float_weights(path)
    return {part for part, names in weight_parts(source).items() if not set(names) & left}


@pytest.mark.parametrize(
    ("node", "part"),
    [
        ("/model/bert/encoder/layer.3/attention/self/query/MatMul", "layer.3/attention"),
        ("/model/bert/encoder/layer.3/attention/output/dense/MatMul", "layer.3/attention"),
        ("/model/bert/encoder/layer.3/intermediate/dense/MatMul", "layer.3/ffn-up"),
        ("/model/bert/encoder/layer.3/output/dense/MatMul", "layer.3/ffn-down"),
        ("/model/distilbert/transformer/layer.0/attention/q_lin/MatMul", "layer.0/attention"),
        ("/model/distilbert/transformer/layer.0/ffn/lin1/MatMul", "layer.0/ffn-up"),
        ("/model/distilbert/transformer/layer.0/ffn/lin2/MatMul", "layer.0/ffn-down"),
        ("/model/bert/embeddings/word_embeddings/Gather", "embeddings"),
        ("/model/classifier/Gemm", "head"),
    ],
)
def test_a_node_belongs_to_a_part_of_its_layer(node, part):
    assert part_name(node) == part


def test_every_weight_belongs_to_one_part(source):
    parts = weight_parts(source)
    names = [name for members in parts.values() for name in members]
    assert sorted(names) == sorted(weight_nodes(prepare(source)))
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
    export_onnx(model, tmp_path / "m.onnx", task="feature-extraction")
    nodes = weight_nodes(prepare(tmp_path / "m.onnx"))
    for members in weight_parts(tmp_path / "m.onnx").values():
        weights = {nodes[name].input[nodes[name].op_type == "MatMul"] for name in members}
        others = {
            node.input[node.op_type == "MatMul"]
            for name, node in nodes.items()
            if name not in members
        }
        assert not weights & others


def test_each_part_is_measured_alone_and_the_worst_comes_first(source, tmp_path):
    def measure(path):
        (part,) = parts_in_int8(source, path)
        return {"layer.1/ffn-down": 9.0, "embeddings": 5.0}.get(part, 1.0)

    errors = rank_parts(source, tmp_path / "trial.onnx", measure=measure)
    assert list(errors)[:2] == ["layer.1/ffn-down", "embeddings"]
    assert len(errors) == 8
    assert not list(tmp_path.iterdir())


def run(source, target, *, good, worst=("layer.1/ffn-down", "layer.0/ffn-down")):
    """Quantize with a gate that passes once no part of ``good`` is INT8."""

    def gate(path):
        passed = not set(good) & parts_in_int8(source, path)
        return GateRecord(passed=passed, limits={}, reasons=() if passed else ("Too lossy.",))

    def measure(path):
        (part,) = parts_in_int8(source, path)
        return float(worst[::-1].index(part) + 2) if part in worst else 1.0

    return quantize_until_passed(source, target, gate=gate, measure=measure)


def test_a_file_that_passes_at_once_keeps_nothing_in_fp32(source, tmp_path):
    outcome = run(source, tmp_path / "q.onnx", good=())
    assert outcome.gate.passed
    assert outcome.gate.kept_fp32 == ()
    assert not float_weights(tmp_path / "q.onnx")


def test_the_worst_parts_stay_in_fp32_one_after_another_until_the_gate_passes(source, tmp_path):
    outcome = run(source, tmp_path / "q.onnx", good=("layer.0/ffn-down",))
    assert outcome.gate.passed
    assert outcome.gate.kept_fp32 == ("layer.1/ffn-down", "layer.0/ffn-down")
    assert len(float_weights(tmp_path / "q.onnx")) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["q.onnx"]


def test_a_file_that_can_not_pass_is_refused_with_the_reasons(source, tmp_path):
    parts = tuple(weight_parts(source))
    outcome = run(source, tmp_path / "q.onnx", good=parts)
    assert outcome.converted is None
    assert not outcome.gate.passed
    assert "Too lossy." in outcome.gate.reasons
    assert not list(tmp_path.iterdir())
