"""Inputs of each task made of plain texts."""

from __future__ import annotations

import pytest

from compress.data.load import make_split
from compress.data.made_inputs import INPUTS, as_choices, as_pairs, as_questions, as_words

TEXTS = ["a b c d", "e f", "g  h i", "j"]


@pytest.fixture
def split():
    return make_split("dev", "here", TEXTS)


def test_pairs_are_two_different_texts(split):
    made = as_pairs(split)
    assert (made.texts, made.text_pairs) == (["a b c d", "e f"], ["g  h i", "j"])


def test_words_are_where_they_are_said_to_be(split):
    made = as_words(split)
    assert made.texts[2] == "g h i"
    assert made.word_spans[2] == [(0, 1), (2, 3), (4, 5)]


def test_every_question_has_a_context(split):
    made = as_questions(split)
    assert made.texts == ["a b", "e", "g", ""]
    assert made.text_pairs == ["c d", "f", "h i", "j"]


def test_a_question_is_short():
    made = as_questions(make_split("dev", "here", [" ".join("abcdefghij" * 10)]))
    assert len(made.texts[0].split()) == 12


def test_choices_are_ends_of_several_texts(split):
    made = as_choices(split)
    assert made.texts == ["a b", "e", "g", "j"]
    assert made.choices[0] == ("c d", "f", "h i", "j")
    assert made.choices[3] == ("j", "c d", "f", "h i")


@pytest.mark.parametrize("task", INPUTS)
def test_they_have_no_labels_and_stay_in_order(split, task):
    made = INPUTS[task](split)
    assert made.labels is None
    assert len(made) == len(split)
