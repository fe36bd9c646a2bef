"""The exported graph: any shape, each weight once, right outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import transformers

from compress.artifacts import onnx_graph
from edgebert.errors import GateError, ModelError
from tests.compress.exports import write_onnx
from tests.tiny import bert_config

SMALL = {
    "vocab_size": 500,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 66,
}


def build(family: str, head: str, **changes: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **changes})
    model: torch.nn.Module = getattr(transformers, f"{family}{head}")(config)
    return model.eval()


def worst_difference(model: torch.nn.Module, path: Path) -> float:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    worst = 0.0
    for batch, seq in ((1, 1), (2, 7), (7, 33), (1, 64)):
        ids = np.random.default_rng(0).integers(5, 90, (batch, seq))
        mask = np.ones_like(ids)
        mask[-1, (seq + 1) // 2 :] = 0
        every = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: every[name] for name in names}
        found = session.run(None, feed)[0]
        with torch.no_grad():
            expected = model(**{k: torch.from_numpy(v) for k, v in feed.items()})[0].numpy()
        worst = max(worst, float(np.abs(found - expected).max()))
    return worst


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Bert", {}),
        ("Roberta", {"type_vocab_size": 1}),
        ("Electra", {"embedding_size": 32}),
        ("Albert", {"embedding_size": 32}),
    ],
)
def test_the_graph_gives_torchs_logits_at_any_shape(tmp_path, family, changes):
    model = build(family, "ForSequenceClassification", **changes)
    write_onnx(model, tmp_path / "m.onnx", "text-classification")
    assert worst_difference(model, tmp_path / "m.onnx") < 1e-5


def test_a_distilbert_has_no_token_type_ids(tmp_path):
    config = transformers.DistilBertConfig(
        vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64
    )
    model = transformers.DistilBertModel(config).eval()
    exported = write_onnx(model, tmp_path / "m.onnx", "feature-extraction")
    assert exported.inputs == ("input_ids", "attention_mask")


def test_a_model_with_one_segment_has_no_token_type_ids(tmp_path):
    model = build("Roberta", "Model", type_vocab_size=1)
    exported = write_onnx(model, tmp_path / "m.onnx", "feature-extraction")
    assert exported.inputs == ("input_ids", "attention_mask")


def test_the_first_output_of_an_encoder_is_its_last_hidden_state(tmp_path):
    exported = write_onnx(build("Bert", "Model"), tmp_path / "m.onnx", "feature-extraction")
    names = tuple(output.name for output in onnx.load(tmp_path / "m.onnx").graph.output)
    assert exported.outputs == names == ("last_hidden_state", "sentence_embedding")


def weight_bytes(path: Path) -> int:
    return sum(len(tensor.raw_data) for tensor in onnx.load(path).graph.initializer)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForSequenceClassification"])
def test_layers_that_share_weights_are_stored_once(tmp_path, head):
    model = build("Albert", head, embedding_size=32, num_hidden_layers=6)
    exported = write_onnx(model, tmp_path / "m.onnx", "fill-mask")
    assert weight_bytes(tmp_path / "m.onnx") <= 1.02 * exported.parameter_bytes


def test_a_tied_output_layer_is_stored_once(tmp_path):
    model = build("Bert", "ForMaskedLM")
    exported = write_onnx(model, tmp_path / "m.onnx", "fill-mask")
    assert weight_bytes(tmp_path / "m.onnx") <= 1.02 * exported.parameter_bytes
    assert worst_difference(model, tmp_path / "m.onnx") < 1e-5


def test_a_file_larger_than_its_parameters_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "fold_identities", lambda _: None)
    monkeypatch.setattr(onnx_graph, "share_initializers", lambda _: None)
    model = build("Bert", "ForMaskedLM", vocab_size=9000)
    with pytest.raises(GateError, match="copied shared weights"):
        write_onnx(model, tmp_path / "m.onnx", "fill-mask")


def test_weights_beyond_one_file_are_refused_before_the_export(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "MAX_FILE_BYTES", 10_000)
    with pytest.raises(ModelError, match="smaller student"):
        write_onnx(build("Bert", "Model"), tmp_path / "m.onnx", "feature-extraction")
    assert not (tmp_path / "m.onnx").exists()


def test_the_model_is_left_as_it_was(tmp_path):
    model = transformers.BertModel(bert_config(), add_pooling_layer=False).train()
    attention = model.config._attn_implementation
    write_onnx(model, tmp_path / "m.onnx", "feature-extraction")
    assert model.training
    assert model.encoder.layer[0].training
    assert model.config._attn_implementation == attention
