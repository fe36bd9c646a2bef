"""Teachers of two layers, made once for all tests of whole steps, and a checkpoint a test."""

from __future__ import annotations

import pytest

from tests.compress.bad_inputs import Case
from tests.compress.steps import Lab, distill_settings, train_settings
from tests.tiny import write_classifier, write_sentiment


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> Lab:
    import torch
    from transformers import BertForMaskedLM

    import compress
    from compress.models.sentence_layout import SentenceLayout, write_layout
    from tests.tiny import bert_config, write_encoder, write_tokenizer

    folder = tmp_path_factory.mktemp("lab")
    names = ("train.tsv", "test.tsv", "encoder", "teacher", "embedder", "masked_lm")
    lab = Lab(*(folder / name for name in names))
    write_sentiment(lab.train, rows=80)
    write_sentiment(lab.test, rows=24)
    write_encoder(lab.encoder, initializer_range=0.2)  # wide enough to learn in a few steps
    write_encoder(lab.embedder, initializer_range=0.2)
    write_layout(lab.embedder, SentenceLayout(pooling="mean", normalize=True), hidden_size=32)
    torch.manual_seed(0)
    write_tokenizer(lab.masked_lm)
    BertForMaskedLM(bert_config(initializer_range=0.2)).save_pretrained(lab.masked_lm)
    compress.train(train_settings(lab, output_dir=lab.teacher))
    return lab


@pytest.fixture
def case(lab, tmp_path) -> Case:
    write_sentiment(tmp_path / "train.tsv", rows=80)
    changes = vars(distill_settings(lab, tmp_path / "student")) | {"max_steps": 2}
    return Case(tmp_path, changes)


@pytest.fixture(scope="session")
def tflite_lab(tmp_path_factory):
    from tests.compress.tflite_files import make_lab

    return make_lab(tmp_path_factory.mktemp("tflite"))


@pytest.fixture
def checkpoint(tmp_path):
    """A classifier of two layers, which a test may damage."""
    write_classifier(tmp_path / "model")
    return tmp_path / "model"
