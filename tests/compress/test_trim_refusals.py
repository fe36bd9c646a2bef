"""What can't be trimmed, or not with these settings, is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

import compress
from edgebert.errors import DamagedBundleError, DataError, InputError, ModelError
from tests.compress.steps import run_step
from tests.compress.trim_models import write_corpus
from tests.tiny import SPECIALS, VOCAB, write_encoder, write_tokenizer


@pytest.fixture
def model(tmp_path):
    write_encoder(tmp_path / "model")
    write_corpus(tmp_path / "corpus.txt", ["good film", "bad film", "the plot"])
    return tmp_path / "model"


def config(model, **changes):
    folder = model.parent
    own = {"corpus": (folder / "corpus.txt",), "output_dir": folder / "output"}
    return compress.TrimConfig(model=str(model), **{**own, **changes})


def refuse(model, error, match, **changes):
    with pytest.raises(error, match=match):
        compress.trim(config(model, **changes))
    assert not (model.parent / "output" / "config.json").exists()


def test_a_corpus_without_a_text(model):
    (model.parent / "corpus.txt").write_text("\n\n")
    refuse(model, DataError, "corpus.txt has no rows")


def test_a_corpus_of_one_text_again_and_again(model):
    write_corpus(model.parent / "corpus.txt", ["good film"] * 5)
    refuse(model, DataError, r"no two different texts, so none can be held out of its 5")


def test_a_column_that_is_not_there(model):
    (model.parent / "corpus.tsv").write_text("review\tlabel\ngood film\t1\n")
    corpus = (model.parent / "corpus.tsv",)
    refuse(model, DataError, "'review', 'label'", corpus=corpus, text_column="sentence")


def test_a_size_below_what_stays_in_any_case(model):
    needed = len(SPECIALS) + 2 * len(set("goodfilmbadtheplot"))
    match = f"vocab_size must be {needed} or more, got 9"
    refuse(model, InputError, match, vocab_size=9, held_out_ratio=0.0)


def test_a_vocabulary_of_another_kind(model):
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(VOCAB)}, unk_token="[UNK]"))
    words.save(str(model / "tokenizer.json"))
    refuse(model, ModelError, "of the kind WordLevel; one of BPE, Unigram, WordPiece can be cut")


def test_a_tokenizer_of_another_model(model):
    write_tokenizer(model, vocab=[*VOCAB, "more", "words"])
    write_corpus(model.parent / "corpus.txt", ["good film", "more words"])
    match = f"gives the id {len(VOCAB) + 1}, but the model has {len(VOCAB)} tokens"
    refuse(model, ModelError, match, held_out_ratio=0.0)


def test_a_tokenizer_that_is_damaged(model):
    (model / "tokenizer.json").write_text(json.dumps({"model": 1}))
    refuse(model, DamagedBundleError, "tokenizer.json is damaged")


def test_an_output_that_is_not_empty(model):
    (model.parent / "output").mkdir()
    (model.parent / "output" / "mine.txt").write_text("mine")
    refuse(model, InputError, "is not empty")
    assert (model.parent / "output" / "mine.txt").read_text() == "mine"
    compress.trim(config(model, overwrite_output_dir=True))
    assert not (model.parent / "output" / "mine.txt").exists()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"corpus": ()}, "one --corpus or more"),
        ({"corpus": Path("corpus.txt")}, "corpus must be"),
        ({"min_count": 0}, "min_count must be 1 or more"),
        ({"vocab_size": 0}, "vocab_size must be 1 or more"),
        ({"held_out_ratio": 1.0}, "held_out_ratio must be from 0 to below 1, got 1.0"),
        ({"held_out_ratio": -0.1}, "held_out_ratio must be from 0 to below 1"),
    ],
)
def test_settings_that_mean_nothing(model, changes, match):
    with pytest.raises(InputError, match=match):
        config(model, **changes)


def test_a_refusal_is_one_line_and_exit_code_1(model, capsys):
    flags = ("--corpus", str(model.parent / "corpus.txt"), "--output-dir", str(model.parent / "o"))
    assert run_step("trim", "--model", str(model), *flags, "--vocab-size", "3") == 1
    assert "vocab_size must be" in capsys.readouterr().err
