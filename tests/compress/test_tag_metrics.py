"""Entity F1 as seqeval counts it, worked out by hand, and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from compress.scoring.intervals import ratio_interval, wilson_interval
from compress.scoring.tag_metrics import evaluate_tags


def f1(predicted, expected):
    return evaluate_tags(
        [tuple(one.split()) for one in predicted], [tuple(one.split()) for one in expected]
    )


def test_the_example_of_seqevals_own_page():
    # MISC is one word short, PER is right: 1 of 2 found, 1 of 2 true
    found = f1(
        ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"],
        ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"],
    )
    assert found["entity_f1"] == pytest.approx(0.5)
    assert found["precision"] == found["recall"] == pytest.approx(0.5)
    assert found["per_class"]["PER"]["f1"] == 1.0
    assert found["per_class"]["MISC"] == {
        "recall": 0.0,
        "precision": 0.0,
        "f1": 0.0,
        "support": 1,
        "predicted": 1,
    }
    assert found["accuracy"] == pytest.approx(8 / 10)
    assert found["rows"] == 2


@pytest.mark.parametrize(
    ("predicted", "expected", "hits", "found", "true"),
    [
        ("B-PER I-PER", "B-PER I-PER", 1, 1, 1),
        ("B-PER O", "B-PER I-PER", 0, 1, 1),  # the border is wrong
        ("B-LOC I-LOC", "B-PER I-PER", 0, 1, 1),  # the type is wrong
        ("I-PER I-PER", "B-PER I-PER", 1, 1, 1),  # an I without a B begins one
        ("B-PER B-PER", "B-PER I-PER", 0, 2, 1),
        ("B-PER I-LOC", "B-PER O", 1, 2, 1),  # another type begins another entity
        ("O O", "B-PER O", 0, 0, 1),
        ("B-PER O", "O O", 0, 1, 0),
        ("S-PER O B-LOC E-LOC", "S-PER O B-LOC E-LOC", 2, 2, 2),
    ],
)
def test_an_entity_is_right_or_wrong_as_a_whole(predicted, expected, hits, found, true):
    result = f1([predicted], [expected])
    assert result["entity_f1"] == pytest.approx(2 * hits / (found + true))
    assert result["precision"] == (hits / found if found else 0.0)
    assert result["recall"] == (hits / true if true else 0.0)


def test_without_any_entity_there_is_nothing_to_find():
    assert f1(["O O"], ["O O"])["entity_f1"] == 0.0  # as seqeval


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = np.array([0.0, 0.5, 1.0, 1.0])
    half = 1.959964 * values.std(ddof=1) / 2
    low, high = ratio_interval(values, np.ones(4))
    assert (low, high) == (pytest.approx(0.625 - half), pytest.approx(min(1.0, 0.625 + half)))


def test_the_interval_of_a_micro_f1_agrees_with_the_bootstrap():
    rng = np.random.default_rng(0)
    wholes = rng.integers(1, 9, 400)
    parts = rng.binomial(wholes, rng.beta(6, 3, 400))  # texts are easy or hard as a whole
    draws = rng.integers(0, 400, (4000, 400))
    ratios = parts[draws].sum(axis=1) / wholes[draws].sum(axis=1)
    np.testing.assert_allclose(
        ratio_interval(parts, wholes), np.quantile(ratios, [0.025, 0.975]), atol=0.005
    )


def test_a_perfect_score_still_has_an_interval():
    assert ratio_interval([2, 4, 0], [2, 4, 0]) == wilson_interval(2, 2)
    assert ratio_interval([0, 0], [0, 0]) == (0.0, 1.0)
