"""A directory without an ``edgebert.json``: its task and labels, its results, its commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgebert
from edgebert.bundles.bundle import Bundle
from edgebert.cli import main
from edgebert.errors import DamagedBundleError, ManifestError
from tests.edgebert.bundles import LABELS, logits_by_hand
from tests.edgebert.foreign import IDS, write_config, write_foreign
from tests.tiny import write_tokenizer

pytestmark = pytest.mark.onnx


@pytest.mark.parametrize(
    ("output", "task"),
    [
        ("logits", "text-classification"),
        ("score", "regression"),
        ("tags", "token-classification"),
        ("words", "fill-mask"),
        ("span", "question-answering"),
        ("last_hidden_state", "feature-extraction"),
        ("sentence_embedding", "feature-extraction"),
    ],
)
def test_the_task_is_told_by_the_outputs_and_the_models_class(tmp_path, output, task):
    assert Bundle(write_foreign(tmp_path, output=output)).manifest.task == task


def test_a_head_that_was_not_exported_does_not_count(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state", architectures=["BertForMaskedLM"])
    assert Bundle(tmp_path).manifest.task == "feature-extraction"


def test_logits_of_an_unknown_class_are_refused_with_what_was_found(tmp_path):
    write_foreign(tmp_path, output="logits", architectures=["GPT2LMHeadModel"])
    with pytest.raises(ManifestError, match=r"logits.*GPT2LMHeadModel.*compress\.export"):
        Bundle(tmp_path)


def test_a_classifier_gives_its_own_labels(tmp_path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="logits"))
    (found,) = runtime.classify(["good film"])
    logits = logits_by_hand(IDS)
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [found.scores[label] for label in LABELS] == pytest.approx(expected, abs=1e-5)


def test_labels_without_names_are_called_as_transformers_calls_them(tmp_path):
    write_foreign(tmp_path, output="logits", id2label={})
    assert Bundle(tmp_path).manifest.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_names_of_other_logits_are_refused(tmp_path):
    write_foreign(tmp_path, output="logits", id2label={"0": "bad", "1": "good"})
    with pytest.raises(DamagedBundleError, match=r"id2label.*\[0, 1\].*has 3"):
        Bundle(tmp_path)


def test_texts_and_pairs_are_both_taken_as_no_file_says_which(tmp_path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="logits"))
    assert len(runtime.classify(["a film"]) + runtime.classify([("a", "film")])) == 2


def test_a_cross_encoder_ranks(tmp_path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="score"))
    assert {one.index for one in runtime.rank("good", ["film", "plot"])} == {0, 1}


def test_nothing_was_verified_and_info_says_so(tmp_path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="logits"), self_test="always")
    assert runtime.info.why.endswith("not verified: no golden outputs")


def test_opening_warns_of_it(tmp_path, caplog):
    Bundle(write_foreign(tmp_path, output="logits"))
    assert "has no edgebert.json" in caplog.text


def test_nothing_is_written(tmp_path):
    there = write_foreign(tmp_path / "there", output="logits")
    before = sorted(there.rglob("*"))
    edgebert.Runtime(there).classify(["good"])
    assert sorted(there.rglob("*")) == before


def test_a_directory_without_a_model_gets_the_error_of_no_bundle(tmp_path):
    write_tokenizer(tmp_path)
    write_config(tmp_path)
    with pytest.raises(ManifestError, match="is not a bundle"):
        Bundle(tmp_path)


def test_a_model_that_takes_all_choices_at_once_gets_them_one_by_one(tmp_path):
    write_foreign(tmp_path, output="score", architectures=["BertForMultipleChoice"])
    add_choices(tmp_path / "model.onnx")
    runtime = edgebert.Runtime(tmp_path)
    (found,) = runtime.choose([("good", ["film", "plot", "the fun"])])
    write_foreign(tmp_path / "plain", output="score")
    plain = edgebert.Runtime(tmp_path / "plain")
    scores = plain.score([("good", "film"), ("good", "plot"), ("good", "the fun")])
    assert found.index == int(np.argmax(scores))


def add_choices(path: Path) -> None:
    """Give a model's inputs the axes ``[batch, choices, seq]``; it takes one choice."""
    model = onnx.load(str(path))
    graph, helper = model.graph, onnx.helper
    names = [value.name for value in graph.input]
    for node in graph.node:
        node.input[:] = [f"{name}_2d" if name in names else name for name in node.input]
    squeeze = [helper.make_node("Squeeze", [name, "one"], [f"{name}_2d"]) for name in names]
    nodes = [*squeeze, *graph.node]
    graph.ClearField("node")
    graph.node.extend(nodes)
    graph.ClearField("input")
    axes = ["batch", 1, "seq"]
    graph.input.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.INT64, axes) for name in names
    )
    onnx.save(model, str(path))


def test_info_describes_a_foreign_directory(tmp_path, capsys):
    write_foreign(tmp_path, output="logits")
    assert main(["info", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "text-classification"


def test_verify_says_that_nothing_can_be_verified(tmp_path, capsys):
    write_foreign(tmp_path, output="logits")
    assert main(["verify", str(tmp_path), "--json"]) == 1
    (verdict,) = json.loads(capsys.readouterr().out)["artifacts"]
    assert (verdict["files"], verdict["self_test"]) == ("passed", "not run")
    assert "no golden outputs" in verdict["detail"]


def test_slim_makes_no_bundle_of_it(tmp_path, capsys):
    write_foreign(tmp_path / "there", output="logits")
    assert main(["slim", str(tmp_path / "there"), str(tmp_path / "out")]) == 1
    assert "compress.export" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
