"""Optimum's graphs go through our names and gates; a stand-in for optimum writes ours."""

from __future__ import annotations

import sys
import types
from dataclasses import replace

import onnx
import pytest
import torch
import transformers

from compress.artifacts import exporters, optimum_export
from compress.artifacts.exporters import OPTIMUM, plan_export
from compress.artifacts.onnx_graph import export_onnx
from compress.artifacts.optimum_export import OptimumExporter, rename_outputs
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.errors import InputError, ModelError
from tests.tiny import bert_config

HEAD = TaskHead(task="feature-extraction", pooling="mean")


@pytest.fixture
def optimum(monkeypatch):
    """Stand in for optimum: writes our graph, without the pooled output, under its names."""
    asked = {}

    def export(model, *, output, task, **_):
        asked["task"] = task
        export_onnx(GraphModule(model, asked.get("head", HEAD)), output / "model.onnx")
        graph = onnx.load(output / "model.onnx")
        rename_outputs(graph, {"last_hidden_state": asked.get("name", "token_embeddings")})
        kept = [value for value in graph.graph.output if value.name != "sentence_embedding"]
        del graph.graph.output[:]
        graph.graph.output.extend(kept)
        onnx.save(graph, output / "model.onnx")

    module = types.ModuleType("optimum.exporters.onnx")
    module.onnx_export_from_model = export
    for name in ("optimum", "optimum.exporters"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "optimum.exporters.onnx", module)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.1.0")
    return asked


def encoder():
    torch.manual_seed(0)
    return transformers.BertModel(bert_config(), add_pooling_layer=False).eval()


@pytest.mark.usefixtures("optimum")
def test_an_output_of_another_name_gets_ours(tmp_path):
    exported = OptimumExporter().export_fp32(encoder(), HEAD, tmp_path / "m.onnx", max_length=64)
    (output,) = onnx.load(tmp_path / "m.onnx").graph.output
    assert output.name == "last_hidden_state"
    assert exported.recipe["exporter"] == "optimum-onnx 0.1.0"


def test_a_graph_without_the_outputs_of_the_task_is_refused(optimum, tmp_path):
    optimum["name"] = "pooled"
    with pytest.raises(ModelError, match=r"outputs \['pooled'\]"):
        OptimumExporter().export_fp32(encoder(), HEAD, tmp_path / "m.onnx", max_length=64)
    assert not (tmp_path / "m.onnx").exists()


def test_a_regression_is_a_classification_to_optimum(optimum, tmp_path):
    optimum["head"] = head = TaskHead(task="regression")
    model = transformers.BertForSequenceClassification(bert_config(num_labels=1)).eval()
    OptimumExporter().export_fp32(model, head, tmp_path / "m.onnx", max_length=64)
    assert optimum["task"] == "text-classification"


@pytest.mark.parametrize(
    "head",
    [
        replace(HEAD, dense=torch.nn.Linear(32, 8)),
        replace(HEAD, pooling_layers=2),
    ],
)
def test_what_its_graphs_do_not_hold_is_refused(tmp_path, head):
    with pytest.raises(ModelError, match="use --exporter edgebert"):
        OptimumExporter().export_fp32(encoder(), head, tmp_path / "m.onnx", max_length=64)


def test_an_error_of_optimum_becomes_ours(optimum, tmp_path, monkeypatch):
    optimum["head"] = None  # which the stand-in can't use
    monkeypatch.setattr(optimum_export, "_check_names", lambda *_: None)
    with pytest.raises(ModelError, match="optimum can't export BertModel"):
        OptimumExporter().export_fp32(encoder(), HEAD, tmp_path / "m.onnx", max_length=64)


def test_where_optimum_is_not_installed_the_install_line_is_given(monkeypatch):
    monkeypatch.setattr(exporters, "OPTIMUM", replace(OPTIMUM, requires=("no_such_package",)))
    with pytest.raises(InputError, match=r"constraints-optimum\.txt 'edgebert\[optimum\]'"):
        plan_export(exporter="optimum")


def test_optimum_is_for_onnx_alone(monkeypatch):
    monkeypatch.setattr(exporters, "OPTIMUM", replace(OPTIMUM, requires=()))
    with pytest.raises(InputError, match="leave out --backend openvino"):
        plan_export(("onnx", "openvino"), exporter="optimum")
    plan = plan_export(exporter="optimum")
    assert (list(plan.recipes), plan.exporter) == (["onnx"], "optimum")
