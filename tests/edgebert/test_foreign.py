"""Directories without an ``edgebert.json``, as other exporters write them, with models by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgebert
from edgebert.bundle import Bundle
from edgebert.cli import main
from edgebert.errors import DamagedBundleError, ManifestError, TaskError
from tests.edgebert.bundles import (
    HIDDEN,
    LABELS,
    TAG_LABELS,
    hidden_by_hand,
    logits_by_hand,
    write_graph,
)
from tests.tiny import write_tokenizer

pytestmark = pytest.mark.onnx

CLASSES = {
    "logits": "BertForSequenceClassification",
    "score": "BertForSequenceClassification",
    "tags": "BertForTokenClassification",
    "words": "BertForMaskedLM",
    "span": "BertForQuestionAnswering",
    "last_hidden_state": "BertModel",
    "sentence_embedding": "BertModel",
}
MODULES = ("Transformer", "Pooling", "Normalize")
IDS = [2, 57, 59, 3]  # [CLS] good film [SEP]


def write_config(directory: Path, **changes) -> None:
    config = {"model_type": "bert", "hidden_size": HIDDEN, "max_position_embeddings": 32, **changes}
    (directory / "config.json").write_text(json.dumps(config))


def write_foreign(
    directory: Path, *, output: str, path: str = "model.onnx", mates: bool = False, **changes
) -> Path:
    """Write what ``optimum-cli export onnx`` leaves, with a model of `tests.edgebert.bundles`."""
    write_tokenizer(directory)
    write_graph(directory / path, output=output, mates=mates)
    config = {"architectures": [CLASSES[output]], **changes}
    if output in ("logits", "tags") and "id2label" not in config:
        config["id2label"] = dict(enumerate(LABELS if output == "logits" else TAG_LABELS))
    write_config(directory, **config)
    return directory


def write_modules(directory: Path, *kinds: str, **pooling) -> None:
    modules = [
        {"idx": i, "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.x.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def rename_output(path: Path, old: str, new: str) -> None:
    model = onnx.load(str(path))
    for value in model.graph.output:
        value.name = new if value.name == old else value.name
    for node in model.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
        node.input[:] = [new if name == old else name for name in node.input]
    onnx.save(model, str(path))


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


def test_a_file_that_is_no_model_is_refused(tmp_path):
    write_foreign(tmp_path, output="logits")
    (tmp_path / "model.onnx").write_bytes(b"<html>not found</html>")
    with pytest.raises(DamagedBundleError, match=r"model\.onnx can't be read"):
        Bundle(tmp_path)


def test_a_change_after_opening_is_found(tmp_path):
    bundle = Bundle(write_foreign(tmp_path, output="logits"))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DamagedBundleError, match=r"tokenizer\.json has 2 bytes"):
        bundle.check_files(bundle.manifest.artifacts[0])


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_link_out_of_the_directory_is_refused(tmp_path):
    write_foreign(tmp_path / "there", output="logits")
    (tmp_path / "there" / "model.onnx").rename(tmp_path / "model.onnx")
    (tmp_path / "there" / "model.onnx").symlink_to(tmp_path / "model.onnx")
    with pytest.raises(DamagedBundleError, match="outside of the bundle"):
        edgebert.Runtime(tmp_path / "there")


@pytest.mark.parametrize("path", ["onnx/model.onnx", "model_optimized.onnx"])
def test_a_model_is_found_where_others_put_it(tmp_path, path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="logits", path=path))
    assert runtime.info.artifact == path


def int8_beside(tmp_path: Path, name: str = "model_quantized.onnx") -> Path:
    """Add a model with a matrix of int8."""
    write_foreign(tmp_path, output="logits")
    model = onnx.load(str(tmp_path / "model.onnx"))
    weight = np.ones((2, 2), dtype=np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "unused"))
    onnx.save(model, str(tmp_path / name))
    return tmp_path


def test_int8_is_told_by_the_weights_and_may_mind_its_mates(tmp_path):
    manifest = Bundle(int8_beside(tmp_path)).manifest
    assert [(a.precision, a.batch_invariant) for a in manifest.artifacts] == [
        *(("fp32", True), ("int8", False))
    ]


def test_int8_that_passed_no_gate_runs_only_when_it_is_named(tmp_path):
    int8_beside(tmp_path)
    assert edgebert.Runtime(tmp_path).info.precision == "fp32"
    assert edgebert.Runtime(tmp_path, precision="int8").info.precision == "int8"


def test_int8_that_passed_no_gate_is_no_fallback(tmp_path):
    int8_beside(tmp_path)
    bundle = Bundle(tmp_path)
    assert [one.precision for one in bundle.fallbacks("auto", "auto")] == ["fp32"]
    assert [one.precision for one in bundle.fallbacks("auto", "int8")] == ["int8", "fp32"]


def test_int8_alone_is_run(tmp_path):
    int8_beside(tmp_path)
    (tmp_path / "model.onnx").unlink()
    assert edgebert.Runtime(tmp_path).info.precision == "int8"


def test_a_model_for_another_machine_is_left_out(tmp_path, monkeypatch):
    int8_beside(tmp_path, "model_qint8_arm64.onnx")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert len(Bundle(tmp_path).manifest.artifacts) == 1
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert len(Bundle(tmp_path).manifest.artifacts) == 2


def test_weights_in_a_file_of_their_own_belong_to_the_model(tmp_path):
    write_foreign(tmp_path, output="logits")
    model = onnx.load(str(tmp_path / "model.onnx"))
    onnx.save(
        *(model, str(tmp_path / "model.onnx")),
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=64,
    )
    (artifact,) = Bundle(tmp_path).manifest.artifacts
    assert [file.path for file in artifact.files] == ["model.onnx", "model.onnx_data"]
    assert len(edgebert.Runtime(tmp_path).classify(["good"])) == 1


def test_missing_weights_are_named(tmp_path):
    write_foreign(tmp_path, output="logits")
    model = onnx.load(str(tmp_path / "model.onnx"))
    onnx.save(
        *(model, str(tmp_path / "model.onnx")),
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=64,
    )
    (tmp_path / "model.onnx_data").unlink()
    with pytest.raises(DamagedBundleError, match=r"needs 'model\.onnx_data'"):
        Bundle(tmp_path)


def test_the_longest_input_is_the_least_of_all_limits(tmp_path):
    write_foreign(tmp_path, output="logits", max_position_embeddings=512)
    write_tokenizer(tmp_path, max_length=100)
    assert Bundle(tmp_path).manifest.max_length == 100
    write_config(tmp_path, architectures=["BertModel"], max_position_embeddings=64, id2label={})
    write_graph(tmp_path / "model.onnx", output="last_hidden_state")
    assert Bundle(tmp_path).manifest.max_length == 64
    write_modules(tmp_path, *MODULES, pooling_mode="mean")
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    assert Bundle(tmp_path).manifest.max_length == 16


def test_no_limit_at_all_is_an_error_that_says_where_to_write_one(tmp_path):
    write_foreign(tmp_path, output="logits", max_position_embeddings=None)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"pad_token": "[PAD]", "model_max_length": 1000000000000000019884624838656}'
    )
    with pytest.raises(DamagedBundleError, match=r"tokenizer_config\.json as \"model_max_length\""):
        Bundle(tmp_path)


def test_special_tokens_are_read_from_the_tokenizers_files(tmp_path):
    write_foreign(tmp_path, output="words")
    assert Bundle(tmp_path).manifest.special_ids == {
        **{"pad_token_id": 0, "unk_token_id": 1, "cls_token_id": 2, "sep_token_id": 3},
        "mask_token_id": 4,
    }


def test_a_padding_token_of_the_configuration_will_do(tmp_path):
    write_foreign(tmp_path, output="logits", pad_token_id=0)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert Bundle(tmp_path).manifest.special_ids == {"pad_token_id": 0}


def test_no_padding_token_is_an_error(tmp_path):
    write_foreign(tmp_path, output="logits")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(DamagedBundleError, match="names no padding token"):
        Bundle(tmp_path)


def test_a_tokenizer_without_its_fast_form_is_an_error(tmp_path):
    write_foreign(tmp_path, output="logits")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(DamagedBundleError, match="save_pretrained"):
        Bundle(tmp_path)


def test_pooling_is_never_guessed(tmp_path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="last_hidden_state"))
    with pytest.raises(TaskError, match=r"modules\.json.*--pooling"):
        runtime.encode(["good film"])
    (found,) = runtime.encode_tokens(["good film"])
    np.testing.assert_allclose(found.vectors, hidden_by_hand(IDS)[1:3], atol=1e-5)


@pytest.mark.parametrize(
    "pooling",
    [{"pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}],
)
def test_pooling_is_what_sentence_transformers_files_say(tmp_path, pooling):
    write_foreign(tmp_path, output="last_hidden_state")
    write_modules(tmp_path, *MODULES, **pooling)
    vector = hidden_by_hand(IDS).mean(axis=0)
    found = edgebert.Runtime(tmp_path).encode(["good film"])[0]
    np.testing.assert_allclose(found, vector / np.linalg.norm(vector), atol=1e-5)


def test_prompts_are_read(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state")
    write_modules(tmp_path, *MODULES, pooling_mode="cls")
    settings = {"prompts": {"query": "query: ", "document": ""}}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    assert Bundle(tmp_path).manifest.prompts == {"query": "query: "}


def test_a_dense_module_that_is_not_in_the_graph_is_refused(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state")
    write_modules(tmp_path, "Transformer", "Pooling", "Dense", pooling_mode="mean")
    with pytest.raises(ManifestError, match="Transformer, Pooling, Dense"):
        Bundle(tmp_path)


def test_a_pooling_folder_outside_is_refused(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state")
    modules = [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "../1_Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DamagedBundleError, match="leaves it"):
        Bundle(tmp_path)


def test_the_graphs_own_vectors_are_taken_under_sentence_transformers_names(tmp_path):
    write_foreign(tmp_path, output="sentence_embedding")
    rename_output(tmp_path / "model.onnx", "last_hidden_state", "token_embeddings")
    runtime = edgebert.Runtime(tmp_path)
    vector = runtime.run(runtime.tokenize(["good film"]))["sentence_embedding"][0]
    np.testing.assert_allclose(runtime.encode(["good film"])[0], vector, atol=1e-6)
    assert runtime.encode_tokens(["good film"])[0].vectors.shape == (2, HIDDEN)


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
