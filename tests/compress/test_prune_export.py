"""A pruned model onward: smaller matrices in an artifact, a teacher, a student."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import numpy_helper

import compress
from compress.models.architecture import Architecture, student_config
from compress.pruning.units import cut_heads, cut_neurons
from tests.compress.exports import write_onnx
from tests.compress.prune_models import (
    FAMILIES,
    HEADS,
    HIDDEN,
    NEURONS,
    SIZE,
    batch,
    build,
    linears,
    logits,
    prune_settings,
)
from tests.compress.steps import distill_settings

GONE = [[1, 2], [0]]


@pytest.fixture(params=FAMILIES)
def pruned(request, tmp_path):
    """A checkpoint of 2 and 3 heads and of 20 neurons a layer, loaded again."""
    model = build(request.param)
    cut_heads(model, GONE)
    cut_neurons(model, torch.rand(2, NEURONS), 20)
    model.save_pretrained(tmp_path / "model")
    maker = transformers.AutoModelForSequenceClassification
    return maker.from_pretrained(tmp_path / "model").eval(), logits(model)


@pytest.mark.onnx
def test_an_onnx_artifact_has_the_smaller_matrices_and_gives_the_same(pruned, tmp_path):
    import onnxruntime

    model, expected = pruned
    path = tmp_path / "model.onnx"
    write_onnx(model, path, "text-classification")
    torch.testing.assert_close(logits(model), expected, atol=1e-5, rtol=0)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = batch() | {"token_type_ids": torch.zeros(2, 12, dtype=torch.long)}
    feed = {node.name: given[node.name].numpy() for node in session.get_inputs()}
    np.testing.assert_allclose(session.run(None, feed)[0], expected.numpy(), atol=1e-5, rtol=0)
    shapes = [
        tuple(sorted(numpy_helper.to_array(one).shape)) for one in onnx.load(path).graph.initializer
    ]
    for heads in (HEADS - len(GONE[0]), HEADS - len(GONE[1])):
        # query, key, value and what reads them
        assert shapes.count(tuple(sorted((heads * SIZE, HIDDEN)))) == 4
    assert shapes.count((20, HIDDEN)) == 4  # up and down of two layers
    assert not any(NEURONS in shape for shape in shapes)


def test_a_student_of_a_pruned_model_notes_no_pruned_head():
    model = build("Bert")
    cut_heads(model, GONE)
    config = student_config(Architecture(1, HIDDEN, HEADS, NEURONS), model.config)
    assert "edgebert_pruned_heads" not in config.to_dict()
    assert "edgebert_pruned_heads" in model.config.to_dict()


@pytest.mark.onnx
def test_a_pruned_checkpoint_teaches_and_is_exported(lab, tmp_path):
    output = tmp_path / "pruned"
    compress.prune(prune_settings(lab, output, sparsity=0.3))
    own = {"train_file": lab.train, "dev_file": lab.train, "max_length": 16, "threads": 1}
    bundle = {"model": str(output), "output_dir": tmp_path / "bundle", "backend": ("onnx",)}
    result = compress.export(compress.ExportConfig(**own, **bundle))
    assert result.rows[0].gate.passed
    manifest = json.loads((tmp_path / "bundle" / "edgebert.json").read_text())
    assert [entry["step"] for entry in manifest["lineage"]] == ["train", "prune", "export"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "bundle")
    assert linears(model, 0)["up"].out_features < 64
    report = compress.distill(
        distill_settings(lab, tmp_path / "student", teacher=str(output), num_train_epochs=1)
    )
    assert report.rows
