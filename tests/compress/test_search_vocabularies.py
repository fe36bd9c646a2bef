"""A teacher for each vocabulary: cut to what train uses, helped by the whole one where it must."""

from __future__ import annotations

import dataclasses
import logging

import pytest
import torch

from compress.data.load import load_data
from compress.models.capture import Wanted, forward_features
from compress.searching.config import SearchConfig
from compress.searching.vocabularies import Vocabularies, corpus_of
from compress.training.teacher_step import ready_teacher
from edgebert.errors import InputError
from tests.compress.steps import QUICK


@pytest.fixture(scope="module")
def make(lab, tmp_path_factory):
    def make(**changes):
        work = tmp_path_factory.mktemp("work")
        given = {
            "teacher": str(lab.teacher),
            "train_file": lab.train,
            "dev_file": lab.train,
            "max_size": "8MB",
            "max_latency": "3ms",
        }
        config = SearchConfig(**{**QUICK, **given, **changes})
        data = load_data(config, task=config.task, seed=config.seed)
        device = torch.device("cpu")
        whole = ready_teacher(
            lab.teacher, data, config, work=work, device=device, learning_rate=1, num_train_epochs=1
        )
        return Vocabularies(config, whole, data, work, device)

    return make


def logits_of(teacher) -> torch.Tensor:
    train = teacher.encoded.train
    batch = train.batch(torch.arange(len(train.rows.encoded)).numpy(), device="cpu")
    with torch.no_grad():
        return forward_features(teacher.model, batch, Wanted()).logits


def test_the_teacher_is_cut_to_what_train_uses_and_answers_as_before(make):
    found = make()
    used, whole = found.sizes  # no half: the letters of the texts stay in any case
    assert used < whole == found.whole.model.config.vocab_size
    small = found.ready(used)
    assert small.model.config.vocab_size == used
    torch.testing.assert_close(logits_of(small), logits_of(found.whole), atol=1e-5, rtol=0)
    assert found.extra_teachers(used) == found.extra_teachers(whole) == ()
    assert found.ensemble(used) is None


def test_where_pieces_are_missing_the_whole_teacher_helps_by_half(make, caplog):
    found = make(vocab_size=(46,))
    small, whole = found.ready(46), found.whole
    assert found.extra_teachers(46) == (str(whole.directory),)
    with caplog.at_level(logging.INFO):
        ensemble = found.ensemble(46)
    assert ensemble is found.ensemble(46)
    mean = (logits_of(small).softmax(-1) + logits_of(whole).softmax(-1)) / 2
    torch.testing.assert_close(ensemble.answers.softmax(-1), mean, atol=1e-4, rtol=0)


def test_a_vocabulary_smaller_than_what_stays_in_any_case_is_refused(make):
    with pytest.raises(InputError, match=r"vocab_size must be 4\d or more, got 9"):
        make(vocab_size=(9,))


def test_students_that_need_the_same_outputs_of_a_teacher_share_them(make):
    found = make(vocab_size=(46,))
    assert found.cache_dir(46, 1) == found.cache_dir(46, 2) != found.cache_dir(50, 1)
    found._config = dataclasses.replace(found._config, hidden_weight=1.0)
    assert found.cache_dir(46, 1) != found.cache_dir(46, 2)  # other layers of the teacher


def test_the_corpus_has_every_text_of_a_row(make):
    train = make().whole.encoded.dev.split
    pairs = dataclasses.replace(train, texts=["a"], text_pairs=["b"], choices=[("c", "d")])
    assert corpus_of(pairs) == ["a", "b", "c", "d"]
