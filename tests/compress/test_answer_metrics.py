"""Exact match and F1 of answers, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from compress.scoring.answer_metrics import answer_scores, best_threshold, cmrc_scores, squad_scores


@pytest.mark.parametrize(
    ("answer", "truth", "exact", "f1"),
    [
        ("the Denver Broncos", "Denver Broncos!", 1, 1),  # article, mark and case left out
        ("Denver  Broncos\n", "denver broncos", 1, 1),
        ("Broncos of Denver", "Denver Broncos", 0, 2 * 2 / (3 + 2)),  # order doesn't count
        ("in Denver", "Denver Broncos", 0, 2 * 1 / (2 + 2)),
        ("Carolina", "Denver", 0, 0),
        ("well-known", "wellknown", 1, 1),  # marks go without a space in their place
        ("a a b", "a b b", 0, 2 * 1 / (1 + 2)),  # the articles "a" are no words
        ("b b c", "b c c", 0, 2 * 2 / (3 + 3)),  # a word counts as often as it is in both
        ("the", "an", 1, 1),  # nothing is left of either
        ("the", "Denver", 0, 0),
    ],
)
def test_answers_as_squad_counts_them(answer, truth, exact, f1):
    assert squad_scores(answer, truth) == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("answer", "truth", "exact", "f1"),
    [
        ("光荣和ω-force", "光荣和ω-force。", 1, 1),
        ("是光荣", "光荣公司", 0, 2 * 2 / (3 + 4)),
        ("光公荣司", "光荣公司", 0, 2 * 1 / (4 + 4)),  # the longest run in common is one long
        ("2010年4月", "2010年", 0, 2 * 2 / (4 + 2)),  # 2010 is one unit
        ("《战国无双3》", "战国无双3", 1, 1),
        ("Sega公司", "sega", 0, 2 * 1 / (3 + 1)),
        ("3.5米", "3.5", 0, 2 * 1 / (2 + 1)),
        ("甲", "乙", 0, 0),
        ("。", "、", 1, 1),
        ("她…", "她", 0, 2 / 3),  # the script looks for two at once, one by one
    ],
)
def test_answers_as_cmrc_counts_them(answer, truth, exact, f1):
    assert cmrc_scores(answer, truth) == (exact, pytest.approx(f1))


def test_the_true_answer_that_fits_best_counts():
    exact, f1 = answer_scores(["Denver Broncos"], [["Broncos", "the Denver Broncos"]])
    assert (exact.tolist(), f1.tolist()) == ([1.0], [1.0])


def test_no_answer_is_right_just_where_there_is_none():
    exact, f1 = answer_scores(["", "", "Denver", "the"], [[], ["Denver"], [], []])
    assert exact.tolist() == f1.tolist() == [1.0, 0.0, 0.0, 1.0]


def test_chinese_answers_are_counted_by_characters():
    _, f1 = answer_scores(["是光荣"], [["光荣公司"]])
    assert f1[0] == pytest.approx(4 / 7)
    _, f1 = answer_scores(["是光荣", "x", "y"], [["光荣公司"], ["x"], ["y"]])
    assert f1[0] == 0.0  # one of three: the data is not Chinese


def test_questions_without_answer_do_not_say_how_the_others_are_counted():
    _, f1 = answer_scores(["是光荣", "", "", ""], [["光荣公司"], [], [], []])
    assert f1.tolist() == [pytest.approx(4 / 7), 1.0, 1.0, 1.0]


def test_no_questions_give_no_scores():
    exact, f1 = answer_scores([], [])
    assert exact.shape == f1.shape == (0,)


def threshold_of(margins, answered, none):
    return best_threshold(*(np.array(x, dtype=np.float64) for x in (margins, answered, none)))


def test_the_threshold_parts_the_questions_without_answer():
    assert 1.0 <= threshold_of([-3, 1, 2, 5], [1, 1, 0, 0], [0, 0, 1, 1]) < 2.0


def test_a_question_wrongly_parted_costs_less_than_two():
    # at most three of four are right: with the first alone above, or the last two
    found = threshold_of([4, -3, 2, 5], [1, 1, 0, 0], [0, 0, 1, 1])
    right = sum([found >= 4, found >= -3, found < 2, found < 5])
    assert right == 3


def test_of_thresholds_that_score_the_same_the_one_nearest_to_zero_is_taken():
    assert threshold_of([-3, 5], [1, 0], [0, 1]) == 0.0
    assert threshold_of([-9, -4], [1, 0], [0, 1]) == pytest.approx(-6.5)


def test_always_answering_is_a_threshold_above_all_margins():
    assert threshold_of([1.0, 2.0], [1, 1], [0, 0]) > 2.0


def test_a_context_without_any_place_has_no_answer():
    assert np.isfinite(threshold_of([np.inf, 1.0], [0, 1], [1, 0]))
    assert threshold_of([np.inf], [0], [1]) == 0.0
