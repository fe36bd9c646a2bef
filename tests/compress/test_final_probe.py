"""What a teacher is scored on at the end: nothing about it may be chosen on test."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from compress.data.task_data import TaskData, make_split
from compress.models.task_head import TaskHead
from compress.scoring.probe import make_probe
from compress.scoring.scores import score_rows
from compress.training.final_probe import final_probe
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, write_tokenizer

ANSWERS = [(("good", 4),), (("good", 4),), (), ()]
CONFIG = SimpleNamespace(max_length=16, doc_stride=None)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


def questions(name, labels):
    contexts = ["the good film"] * len(ANSWERS)
    return make_split(name, name, ["hello"] * len(contexts), text_pairs=contexts, labels=labels)


def teacher_of(tokenizer, dev):
    head = TaskHead(task="question-answering", no_answer=True)
    probe = make_probe(dev, head, tokenizer, max_length=16)
    encoded = SimpleNamespace(dev=probe)
    return SimpleNamespace(encoded=encoded, tokenizer=tokenizer, special_ids={}, model=None)


def values_with(probe, nones):
    """The best place of each row scores 10, "no answer" what is given."""
    values = np.zeros((probe.size, 2), dtype=np.float32)
    for start, none in zip(probe.rows.starts, nones, strict=False):
        values[start], values[start + 4] = none / 2, 5.0
    return values


def test_the_threshold_on_no_answer_is_that_of_dev(tokenizer):
    dev, test = questions("dev", ANSWERS), questions("test", ANSWERS)
    teacher = teacher_of(tokenizer, dev)
    dev_values = values_with(teacher.encoded.dev, [2, 4, 7, 9])  # parted between -6 and -3
    data = TaskData(dev, dev, test, (), None)
    final = final_probe(teacher, data, CONFIG, dev_values=dev_values)
    assert final.no_answer_threshold == pytest.approx(-4.5)
    values = values_with(final, [7, 8, 9, 9.5])  # its own best would part them: an F1 of 1
    assert score_rows(final, values, values).value == 0.5


def test_without_labels_there_is_nothing_to_score(tokenizer):
    dev, test = questions("dev", ANSWERS), questions("test", None)
    teacher = teacher_of(tokenizer, dev)
    assert final_probe(teacher, TaskData(dev, dev, None, (), None), CONFIG) is None
    assert final_probe(teacher, TaskData(dev, dev, test, (), None), CONFIG) is None
