"""Scores of rows whose numbers are written by hand: what they say, and how good that is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compress.data.load import make_split
from compress.data.tagged import word_spans
from compress.models.task_head import TaskHead
from compress.scoring.predictions import calibrate_no_answer, predictions
from compress.scoring.probe import make_probe
from compress.scoring.scores import evaluate_rows, score_rows
from edgebert.errors import DataError
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, write_tokenizer

TAGS = ("B-X", "I-X", "O")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


def one_hot(places, width):
    return np.eye(width, dtype=np.float32)[np.asarray(places)]


def tag_probe(tokenizer, words, labels=None, **settings):
    split = make_split(
        "dev",
        "here",
        [" ".join(one) for one in words],
        labels=labels,
        word_spans=[word_spans(one) for one in words],
    )
    head = TaskHead(task="token-classification", labels=TAGS)
    return make_probe(split, head, tokenizer, max_length=16, **settings)


def answer_probe(tokenizer, contexts, labels, **settings):
    split = make_split("dev", "here", ["hello"] * len(contexts), text_pairs=contexts, labels=labels)
    head = TaskHead(task="question-answering", **settings)
    return make_probe(split, head, tokenizer, max_length=16)


def answer_values(probe, places, *, none=0.0):
    """Logits that are high at the given first and last token of each row, and ``none`` at 0."""
    values = np.zeros((probe.size, 2), dtype=np.float32)
    for start, place in zip(probe.rows.starts, places, strict=False):
        values[start] = none / 2
        if place is not None:
            values[start + place[0], 0] = values[start + place[1], 1] = 5.0
    return values


def test_a_word_has_the_tag_of_its_first_token(tokenizer):
    probe = tag_probe(tokenizer, [["film", "abc", "good"]], [("O", "B-X", "I-X")])
    # [CLS] film a ##b ##c good [SEP]: what the other tokens say doesn't count
    values = one_hot([0, 2, 0, 2, 2, 1, 0], 3)
    assert predictions(probe, values).tolist() == [2, 0, 1]
    assert score_rows(probe, values, values).value == 1.0


def test_a_word_in_two_windows_is_read_where_it_has_the_most_context(tokenizer):
    words = ["the", "good", "film", "is", "not", "fun", ".", "very", "dull", "plot"]
    probe = tag_probe(tokenizer, [words])
    split = make_probe(probe.split, probe.head, tokenizer, max_length=8, stride=2)
    assert len(split) > 1
    values = np.zeros((split.size, 3), dtype=np.float32)
    for start, window in zip(split.rows.starts, split.rows.windows, strict=False):
        tokens = start + np.arange(len(window.positions))
        values[tokens, np.where(window.best, 0, 1)] = 1.0  # B-X where it is best, else I-X
    assert set(predictions(split, values).tolist()) == {0}


def test_a_word_without_a_token_is_outside(tokenizer):
    probe = tag_probe(tokenizer, [["film", "\x01", "good"]], [("O", "O", "B-X")])
    values = one_hot([0, 2, 0, 0], 3)  # [CLS] film good [SEP]
    assert predictions(probe, values).tolist() == [2, -1, 0]
    assert score_rows(probe, values, values).value == 1.0


def test_entities_are_scored_by_type(tokenizer):
    probe = tag_probe(tokenizer, [["good", "film"]], [("B-X", "I-X")])
    values = one_hot([2, 0, 2, 2], 3)  # the entity is one word short
    score = score_rows(probe, values, values)
    assert (score.metric, score.value) == ("entity_f1", 0.0)
    assert [(one.label, one.recall, one.support) for one in score.per_class] == [("X", 0.0, 1)]


def test_tags_without_labels_are_held_against_the_entities_of_the_reference(tokenizer):
    probe = tag_probe(tokenizer, [["good", "film"], ["fun"]])
    reference = one_hot([2, 0, 1, 2, 2, 0, 2], 3)
    values = one_hot([2, 0, 1, 2, 2, 2, 2], 3)
    score = score_rows(probe, values, reference)
    assert score.metric == "agreement"
    assert score.value == pytest.approx(2 * 1 / (1 + 2))


def test_taggings_that_both_find_nothing_agree(tokenizer):
    probe = tag_probe(tokenizer, [["good", "film"]])
    nothing = one_hot([2, 2, 2, 2], 3)
    assert score_rows(probe, nothing, nothing).value == 1.0


def test_an_answer_is_scored_by_its_words(tokenizer):
    # [CLS] hello [SEP] the good film [SEP]
    probe = answer_probe(
        tokenizer, ["the good film", "the good film"], [(("good", 4),), (("film", 9),)]
    )
    values = answer_values(probe, [(4, 4), (4, 5)])
    found = evaluate_rows(probe, values)
    assert found["exact_match"] == 0.5
    assert found["f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert predictions(probe, values).tolist() == [[4, 8], [4, 13]]


def test_a_question_is_no_place_for_an_answer(tokenizer):
    probe = answer_probe(tokenizer, ["the good film"], [(("good", 4),)])
    values = answer_values(probe, [(4, 4)])
    values[1] = 9.0  # the question's own word
    assert evaluate_rows(probe, values)["exact_match"] == 1.0


def test_answers_are_no_longer_than_the_head_says(tokenizer):
    probe = answer_probe(tokenizer, ["the good film"], [(("film", 9),)], max_answer_length=1)
    values = answer_values(probe, [(3, 5)])
    values[probe.rows.starts[0] + 5, 0] = 1.0
    assert predictions(probe, values).tolist() == [[9, 13]]


def test_no_answer_is_given_from_the_calibrated_margin_on(tokenizer):
    contexts = ["the good film"] * 4
    labels = [(("good", 4),), (("good", 4),), (), ()]
    probe = answer_probe(tokenizer, contexts, labels, no_answer=True)
    values = answer_values(probe, [(4, 4)] * 4)  # the best place scores 10
    for row, none in enumerate([2.0, 4.0, 7.0, 9.0]):  # margins -8, -6, -3, -1
        values[probe.rows.starts[row]] = none / 2
    threshold = calibrate_no_answer(probe, values)
    assert threshold == pytest.approx(-4.5)
    assert evaluate_rows(replace(probe, no_answer_threshold=threshold), values)["f1"] == 1.0
    assert evaluate_rows(replace(probe, no_answer_threshold=0.0), values)["f1"] == 0.5
    assert score_rows(probe, values, values).value == 1.0  # calibrated on these very rows


def test_without_answers_to_calibrate_on_a_threshold_is_kept(tokenizer):
    probe = answer_probe(
        tokenizer, ["the good film"], None, no_answer=True, no_answer_threshold=-3.5
    )
    assert calibrate_no_answer(probe, answer_values(probe, [(4, 4)])) == -3.5


def test_a_model_that_always_answers_has_no_threshold(tokenizer):
    probe = answer_probe(tokenizer, ["the good film"], [(("good", 4),)])
    assert calibrate_no_answer(probe, answer_values(probe, [(4, 4)])) is None


def test_the_choice_with_the_highest_score_counts(tokenizer):
    split = make_split(
        "dev", "here", ["a", "b"], labels=[2, 0], choices=[("x", "y", "z"), ("x", "y")]
    )
    probe = make_probe(split, TaskHead(task="multiple-choice"), tokenizer, max_length=8)
    values = np.array([[1], [2], [3], [-2], [-1]], dtype=np.float32)
    assert predictions(probe, values).tolist() == [2, 1]
    score = score_rows(probe, values, values)
    assert (score.metric, score.value) == ("accuracy", 0.5)


def test_scores_are_ranked_for_spearman_and_taken_as_they_are_for_pearson(tokenizer):
    split = make_split("dev", "here", ["a", "b", "c", "d"], labels=[1.0, 2.0, 3.0, 10.0])
    probe = make_probe(split, TaskHead(task="regression"), tokenizer, max_length=8)
    values = np.array([[0.1], [0.2], [0.3], [0.4]], dtype=np.float32)
    found = evaluate_rows(probe, values)
    assert found["spearman"] == pytest.approx(1.0)
    assert found["pearson"] == pytest.approx(np.corrcoef(values[:, 0], split.labels)[0, 1])
    assert score_rows(probe, values, values).metric == "spearman"


def test_scores_without_labels_are_correlated_with_the_reference(tokenizer):
    split = make_split("dev", "here", ["a", "b", "c"])
    probe = make_probe(split, TaskHead(task="regression"), tokenizer, max_length=8)
    reference = np.array([[1], [2], [3]], dtype=np.float32)
    score = score_rows(probe, -reference, reference)
    assert (score.metric, score.value) == ("correlation", pytest.approx(-1.0))


@pytest.mark.parametrize("task", ["text-classification", "multiple-choice", "question-answering"])
def test_predictions_without_labels_are_held_against_the_reference(tokenizer, task):
    split = make_split(
        "dev",
        "here",
        ["a", "b"],
        text_pairs=["x y", "x y"] if task == "question-answering" else None,
        choices=[("x", "y"), ("x", "y")] if task == "multiple-choice" else None,
    )
    probe = make_probe(split, TaskHead(task=task), tokenizer, max_length=8)
    width = {"multiple-choice": 1}.get(task, 2)
    reference = np.random.default_rng(0).normal(size=(probe.size, width)).astype(np.float32)
    assert score_rows(probe, reference, reference).value == 1.0
    assert score_rows(probe, -reference, reference).value < 1.0
    assert score_rows(probe, reference, reference).metric == "agreement"
    with pytest.raises(DataError, match="no labels"):
        evaluate_rows(probe, reference)
