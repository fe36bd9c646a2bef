import math

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.tasks.heads import classify_logits, sigmoid, softmax

SINGLE, MULTI = "single_label_classification", "multi_label_classification"


def classify(logits, kind=SINGLE, top_k=None):
    logits = np.array([logits], dtype=np.float32)
    return classify_logits(logits, ("a", "b", "c"), kind, top_k, np.array([7]))[0]


def test_softmax_matches_a_hand_calculation():
    logits = np.array([[math.log(3.0), 0.0]], dtype=np.float32)
    np.testing.assert_allclose(softmax(logits), [[0.75, 0.25]], rtol=1e-6)


def test_sigmoid_matches_a_hand_calculation():
    logits = np.array([math.log(3.0), 0.0, -math.log(3.0)], dtype=np.float32)
    np.testing.assert_allclose(sigmoid(logits), [0.75, 0.5, 0.25], rtol=1e-6)


def test_huge_logits_do_not_overflow():
    logits = np.array([[3e38, -3e38]], dtype=np.float32)
    np.testing.assert_array_equal(softmax(logits), [[1.0, 0.0]])
    np.testing.assert_array_equal(sigmoid(logits), [[1.0, 0.0]])


def test_scores_come_best_first_and_add_up_to_one():
    result = classify([0.0, 2.0, 1.0])
    assert list(result.scores) == ["b", "c", "a"]
    assert sum(result.scores.values()) == pytest.approx(1.0)
    assert (result.label, result.labels, result.dropped_tokens) == ("b", ("b",), 7)


def test_top_k_limits_scores_but_not_the_label():
    result = classify([0.0, 2.0, 1.0], top_k=2)
    assert list(result.scores) == ["b", "c"]


def test_multi_label_keeps_every_label_at_one_half():
    result = classify([0.0, -1.0, 3.0], MULTI)
    assert result.labels == ("c", "a")
    assert result.scores["a"] == 0.5


def test_multi_label_may_have_no_label_at_all():
    assert classify([-1.0, -2.0, -3.0], MULTI).labels == ()


def test_equal_scores_keep_the_order_of_the_labels():
    assert list(classify([1.0, 1.0, 1.0]).scores) == ["a", "b", "c"]


def test_top_k_below_one_is_refused():
    with pytest.raises(InputError, match="top_k is 0"):
        classify([0.0, 1.0, 2.0], top_k=0)
