"""The OpenVINO file: any shape, each weight once, torch's outputs by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from compress.artifacts import openvino_graph
from compress.artifacts.openvino_graph import export_openvino, read_ir, weight_nodes
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.errors import GateError, ModelError
from edgebert.types import Batch
from runtimes import SessionOptions
from runtimes.openvino import OpenVinoBackend
from tests.tiny import bert_config

pytestmark = pytest.mark.openvino

SMALL = {
    "vocab_size": 500,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
TWO = ("bad", "good")
HEADS = {
    "ForSequenceClassification": TaskHead(task="text-classification", labels=TWO),
    "ForTokenClassification": TaskHead(task="token-classification", labels=TWO),
    "ForQuestionAnswering": TaskHead(task="question-answering"),
    "ForMultipleChoice": TaskHead(task="multiple-choice"),
    "ForMaskedLM": TaskHead(task="fill-mask"),
    "Model": TaskHead(
        task="feature-extraction", pooling="mean", pooling_layers=2, dense=torch.nn.Linear(64, 24)
    ),
}


def build(family: str, head: str, **changes: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **changes})
    model: torch.nn.Module = getattr(transformers, f"{family}{head}")(config)
    return model.eval()


def batch_of(rows: int, length: int) -> Batch:
    ids = np.random.default_rng(0).integers(5, 90, (rows, length))
    mask = np.ones_like(ids)
    mask[-1, (length + 1) // 2 :] = 0
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(rows, dtype=np.int64))


def worst_difference(module: GraphModule, path: Path) -> float:
    backend = OpenVinoBackend(path, SessionOptions(threads=1))
    worst = 0.0
    for rows, length in ((1, 1), (2, 7), (7, 33), (1, 64)):
        batch = batch_of(rows, length)
        found = backend.run(batch)
        inputs = [torch.from_numpy(getattr(batch, name)) for name in module.input_names]
        with torch.no_grad():
            expected = module(*inputs)
        assert set(found) == set(module.output_names)
        for name, values in zip(module.output_names, expected, strict=True):
            difference = np.abs(found[name] - values.numpy())
            if module.head.has_token_axis(name):
                difference = difference[batch.attention_mask == 1]
            worst = max(worst, float(difference.max()))
    return worst


@pytest.mark.parametrize("head", HEADS)
def test_the_file_gives_torchs_outputs_of_every_task(tmp_path, head):
    module = GraphModule(build("Bert", head), HEADS[head])
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    assert worst_difference(module, tmp_path / "m.xml") < 1e-4


def test_a_regression_has_one_number_a_row(tmp_path):
    model = build("Bert", "ForSequenceClassification", num_labels=1)
    module = GraphModule(model, TaskHead(task="regression"))
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    assert worst_difference(module, tmp_path / "m.xml") < 1e-4


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Roberta", {"type_vocab_size": 1}),
        ("Electra", {"embedding_size": 32}),
        ("Albert", {"embedding_size": 32}),
    ],
)
def test_the_file_gives_torchs_logits_for_every_family(tmp_path, family, changes):
    model = build(family, "ForSequenceClassification", **changes)
    module = GraphModule(model, HEADS["ForSequenceClassification"])
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    assert worst_difference(module, tmp_path / "m.xml") < 1e-4


def test_a_distilbert_has_no_token_type_ids(tmp_path):
    config = transformers.DistilBertConfig(
        vocab_size=99, dim=64, n_layers=2, n_heads=4, hidden_dim=64
    )
    module = GraphModule(transformers.DistilBertModel(config), HEADS["Model"])
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    backend = OpenVinoBackend(tmp_path / "m.xml", SessionOptions(threads=1))
    assert backend.inputs == ["input_ids", "attention_mask"]


def stored_bytes(path: Path) -> int:
    return path.with_suffix(".bin").stat().st_size


@pytest.mark.parametrize(
    ("family", "head"),
    [("Albert", "ForMaskedLM"), ("Albert", "ForSequenceClassification"), ("Bert", "ForMaskedLM")],
)
def test_shared_weights_are_stored_once(tmp_path, family, head):
    changes = {"embedding_size": 32} if family == "Albert" else {}
    module = GraphModule(build(family, head, num_hidden_layers=6, **changes), HEADS[head])
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert stored_bytes(tmp_path / "m.xml") <= 1.05 * 4 * parameters


def test_a_file_larger_than_its_parameters_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(openvino_graph, "MAX_GROWTH", 0.5)
    module = GraphModule(build("Bert", "ForMaskedLM"), HEADS["ForMaskedLM"])
    with pytest.raises(GateError, match=r"m\.bin has \d+ bytes.*copied shared weights"):
        export_openvino(module, tmp_path / "m.xml", max_length=64)


def test_a_model_that_cannot_be_traced_is_named(tmp_path, monkeypatch):
    module = GraphModule(build("Bert", "Model"), HEADS["Model"])

    def fail(*_: torch.Tensor) -> None:
        raise NotImplementedError("no such operator")

    monkeypatch.setattr(module, "forward", fail)
    with pytest.raises(ModelError, match=r"can't hold BertModel: .*no such operator"):
        export_openvino(module, tmp_path / "m.xml", max_length=64)


@pytest.mark.parametrize("head", ["Model", "ForSequenceClassification"])
def test_no_loss_is_asked_for_on_the_way(tmp_path, monkeypatch, head):
    said: list[str] = []
    monkeypatch.setattr(transformers.modeling_utils.logger, "warning_once", said.append)
    module = GraphModule(build("Bert", head), HEADS[head])
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    assert said == []


def test_equal_models_make_equal_files(tmp_path):
    module = GraphModule(build("Bert", "ForMaskedLM"), HEADS["ForMaskedLM"])
    for name in ("one", "two"):
        export_openvino(module, tmp_path / f"{name}.xml", max_length=64)
    for suffix in (".xml", ".bin"):
        one, two = ((tmp_path / name).with_suffix(suffix) for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_the_file_names_no_folder_of_this_machine(tmp_path):
    export_openvino(
        GraphModule(build("Bert", "Model"), HEADS["Model"]), tmp_path / "m.xml", max_length=64
    )
    assert str(tmp_path) not in (tmp_path / "m.xml").read_text()
    assert str(Path.cwd()) not in (tmp_path / "m.xml").read_text()


def test_every_matrix_and_table_is_a_weight_node(tmp_path):
    model = transformers.BertForSequenceClassification(bert_config()).eval()
    module = GraphModule(model, HEADS["ForSequenceClassification"])
    export_openvino(module, tmp_path / "m.xml", max_length=64)
    kinds = [node.kind for node in weight_nodes(read_ir(tmp_path / "m.xml")).values()]
    # per layer query, key, value, attention output, up and down; then pooler and classifier
    assert (kinds.count("MatMul"), kinds.count("Gather")) == (2 * 6 + 2, 3)


def test_the_model_is_left_as_it_was(tmp_path):
    model = transformers.BertModel(bert_config(), add_pooling_layer=False).train()
    attention = model.config._attn_implementation
    head = TaskHead(task="feature-extraction", pooling="cls")
    export_openvino(GraphModule(model, head), tmp_path / "m.xml", max_length=64)
    assert model.encoder.layer[0].training
    assert model.config._attn_implementation == attention
