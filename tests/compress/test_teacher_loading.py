"""Checking and loading a teacher: its files, its head and its tokenizer."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from compress.models import files as model_files
from compress.models.files import check_checkpoint, max_positions
from compress.models.loading import prepare_tokenizer, special_token_ids
from compress.models.teachers import load_teacher, load_tokenizer
from edgebert.errors import InputError, ModelError
from tests.tiny import SPECIAL_IDS, bert_config, write_encoder, write_tokenizer


def test_a_head_for_another_kind_of_labels_is_refused(checkpoint):
    config = json.loads((checkpoint / "config.json").read_text())
    config["problem_type"] = "multi_label_classification"
    (checkpoint / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="--problem-type multi_label_classification"):
        load_teacher(
            checkpoint,
            task="text-classification",
            labels=("bad", "good"),
            problem_type="single_label_classification",
        )


def damaged(path, problem):
    weights = path / "model.safetensors"
    data = weights.read_bytes()
    match problem:
        case "no config":
            (path / "config.json").unlink()
        case "config no json":
            (path / "config.json").write_text("{")
        case "no weights":
            weights.unlink()
        case "pickle only":
            weights.rename(path / "pytorch_model.bin")
        case "cut short":
            weights.write_bytes(data[: len(data) // 2])
        case "header cut short":
            weights.write_bytes(data[:20])
        case "empty":
            weights.write_bytes(b"")
        case "lfs pointer":
            weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
        case "header changed":
            weights.write_bytes(data[:8] + b"\x00" * 50 + data[58:])


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("no config", "no config.json"),
        ("config no json", "can't be read as JSON"),
        ("no weights", r"no model\.safetensors"),
        ("pickle only", r"pytorch_model\.bin, a format that may run code.*save_pretrained"),
        ("cut short", r"damaged: \d+ bytes, \d+ expected"),
        ("header cut short", "header is cut short"),
        ("empty", "header is cut short"),
        ("lfs pointer", "git lfs pull"),
        ("header changed", "header is no JSON"),
    ],
)
def test_a_damaged_checkpoint_is_named_before_it_is_loaded(checkpoint, problem, message):
    damaged(checkpoint, problem)
    with pytest.raises(ModelError, match=message) as caught:
        check_checkpoint(checkpoint)
    assert str(checkpoint) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_shard_is_named(checkpoint):
    (checkpoint / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"model-00001-of-00001\.safetensors is missing"):
        check_checkpoint(checkpoint)


def test_configuration_and_weights_of_two_models_are_refused(checkpoint):
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"lacks \d+ weights.*don't belong together"):
        load_teacher(checkpoint, task="text-classification", labels=("bad", "good"))
    (checkpoint / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))
    with pytest.raises(ModelError, match="in other shapes"):
        load_teacher(checkpoint, task="feature-extraction")


def test_an_encoder_gets_a_new_head_for_the_labels(tmp_path, capfd):
    write_encoder(tmp_path)
    capfd.readouterr()
    loaded = load_teacher(
        tmp_path,
        task="text-classification",
        labels=("a", "b", "c"),
        problem_type="multi_label_classification",
    )
    assert not loaded.has_head
    assert loaded.labels == ("a", "b", "c")
    assert loaded.model.config.label2id == {"a": 0, "b": 1, "c": 2}
    assert loaded.model.config.problem_type == "multi_label_classification"
    assert loaded.model.classifier.out_features == 3
    assert not loaded.model.training
    assert capfd.readouterr() == ("", "")  # no load report, no bar


def test_extraction_takes_the_encoder_of_a_classifier_without_its_pooler(checkpoint):
    loaded = load_teacher(checkpoint, task="feature-extraction")
    assert loaded.has_head
    assert loaded.model.pooler is None
    assert loaded.model.dtype == torch.float32


def test_a_masked_lm_is_told_from_an_encoder(tmp_path):
    from transformers import BertForMaskedLM

    write_encoder(tmp_path / "encoder")
    assert not load_teacher(tmp_path / "encoder", task="fill-mask").has_head
    write_tokenizer(tmp_path / "mlm")
    BertForMaskedLM(bert_config()).save_pretrained(tmp_path / "mlm")
    assert load_teacher(tmp_path / "mlm", task="fill-mask").has_head


def test_without_labels_a_classifier_keeps_its_own(checkpoint, tmp_path):
    assert load_teacher(checkpoint, task="text-classification").labels == ("bad", "good")
    write_encoder(tmp_path / "encoder")
    with pytest.raises(ModelError, match="no text-classification head"):
        load_teacher(tmp_path / "encoder", task="text-classification")


def test_the_tokenizer_gives_the_ids_of_transformers(checkpoint):
    from transformers import AutoTokenizer

    expected = AutoTokenizer.from_pretrained(checkpoint)("the good film!")["input_ids"]
    tokenizer = load_tokenizer(checkpoint, 16)
    found = tokenizer.encode(["the good film!"], max_length=16)[0].input_ids
    np.testing.assert_array_equal(found, expected)
    assert special_token_ids(checkpoint) == SPECIAL_IDS


def test_a_vocabulary_alone_becomes_a_fast_tokenizer_elsewhere(checkpoint, tmp_path):
    expected = load_tokenizer(checkpoint, 16).encode(["the good film"], max_length=16)
    (checkpoint / "tokenizer.json").unlink()
    work = tmp_path / "work"
    assert prepare_tokenizer(checkpoint, work_dir=work) == work
    found = load_tokenizer(checkpoint, 16, work_dir=work).encode(["the good film"], max_length=16)
    np.testing.assert_array_equal(found[0].input_ids, expected[0].input_ids)
    assert not (checkpoint / "tokenizer.json").exists()


def test_a_checkpoint_without_tokenizer_is_refused(checkpoint):
    for name in ("tokenizer.json", "vocab.txt"):
        (checkpoint / name).unlink()
    with pytest.raises(ModelError, match="has no tokenizer"):
        load_tokenizer(checkpoint, 16)


def test_max_length_is_limited_by_the_position_table(checkpoint):
    with pytest.raises(InputError, match=r"max_length 513 is more than the 512 positions"):
        load_tokenizer(checkpoint, 513)


def test_roberta_positions_start_after_the_padding_id():
    config = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert max_positions(config) == 512
    assert max_positions({**config, "model_type": "bert"}) == 514


def test_families_have_a_classifier_in_transformers():
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    )

    theirs = {*model_files.FAMILIES} - {model_files.SHARED_BERT}
    assert theirs <= set(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)
