"""A model card shows every artifact, and a call that its task has."""

from __future__ import annotations

import ast
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compress.bundles.model_card import example_call, model_card
from edgebert.formats.manifest import TASKS
from edgebert.tasks.names import METHODS
from tests.compress.sample_report import fp32_row, int8_row, refused_row, sample_report
from tests.tiny import SPECIAL_IDS, write_tokenizer


def manifest_of(task, *, pairs=False):
    return SimpleNamespace(
        task=task, pairs=pairs, special_ids=SPECIAL_IDS, pooling=None, labels=(), max_length=64
    )


@pytest.mark.parametrize("task", TASKS)
def test_the_example_calls_a_method_of_the_task(tmp_path, task):
    write_tokenizer(tmp_path)
    call = ast.parse(example_call(manifest_of(task), tmp_path), mode="eval").body
    assert call.func.id in METHODS[task]


def test_a_masked_model_is_called_with_its_own_mask(tmp_path):
    write_tokenizer(tmp_path)
    assert example_call(manifest_of("fill-mask"), tmp_path) == 'fill_mask(["Some [MASK] text."])'


@pytest.mark.parametrize(("pairs", "kind"), [(True, ast.Tuple), (False, ast.Constant)])
def test_a_model_of_pairs_is_called_with_a_pair(tmp_path, pairs, kind):
    manifest = manifest_of("text-classification", pairs=pairs)
    call = ast.parse(example_call(manifest, tmp_path), mode="eval").body
    (text,) = call.args[0].elts
    assert isinstance(text, kind)


def test_every_artifact_has_a_line_and_every_engine_a_tag(tmp_path):
    rows = (fp32_row(), int8_row(), replace(int8_row(), backend="tflite", path="tflite/m.tflite"))
    report = sample_report(rows=rows, refused=(refused_row(),))
    result = SimpleNamespace(manifest=manifest_of("text-classification"))
    card = model_card(report, result, tmp_path)
    for row in rows:
        assert f"| `{row.path}` |" in card
    assert "tags: [edgebert, onnx, tflite]\n" in card
    assert "pip install 'edgebert[onnx]' (or tflite)" in card
    assert "Left out: openvino int8. accuracy on dev fell" in card


def test_a_regression_is_known_to_the_hub_as_a_classification(tmp_path):
    report = replace(sample_report(), task="regression")
    card = model_card(report, SimpleNamespace(manifest=manifest_of("regression")), tmp_path)
    assert "pipeline_tag: text-classification\n" in card
