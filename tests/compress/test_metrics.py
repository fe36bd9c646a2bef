"""Metrics against hand calculations and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from compress.data.load import make_split
from compress.scoring.metrics import (
    accuracy,
    confusion,
    evaluate_logits,
    fisher_interval,
    macro_f1,
    majority_share,
    mcc,
    multi_label_f1,
    pearson,
    per_class,
    ranks,
    spearman,
    wilson_interval,
)
from edgebert.errors import DataError, InputError

LABELS = ("a", "b", "c")
EXPECTED = np.array([0, 0, 0, 1, 1, 2])
PREDICTED = np.array([0, 0, 1, 1, 0, 0])  # class c is never predicted


def table():
    return confusion(PREDICTED, EXPECTED, 3)


def test_the_confusion_has_a_row_per_expected_class():
    np.testing.assert_array_equal(table(), [[2, 1, 0], [1, 1, 0], [1, 0, 0]])


def test_accuracy_is_the_share_of_hits():
    assert accuracy(PREDICTED, EXPECTED) == pytest.approx(3 / 6)


def test_recall_precision_and_support_of_each_class():
    found = per_class(table(), LABELS)
    assert found["a"]["recall"] == pytest.approx(2 / 3)
    assert found["a"]["precision"] == pytest.approx(2 / 4)
    assert found["a"]["support"] == 3
    assert found["a"]["predicted"] == 4


def test_a_class_never_predicted_has_precision_zero_and_no_nan():
    vanished = {"recall": 0.0, "precision": 0.0, "f1": 0.0, "support": 1, "predicted": 0}
    assert per_class(table(), LABELS)["c"] == vanished


def test_macro_f1_weighs_classes_equally():
    # a: 2*2/(3+4), b: 2*1/(2+2), c: 0
    assert macro_f1(table()) == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)


def test_macro_f1_leaves_out_classes_that_nobody_has():
    assert macro_f1(confusion(np.array([0, 1]), np.array([0, 1]), 5)) == 1.0


def test_mcc_of_two_classes_is_the_binary_formula():
    # tp 4, tn 3, fp 2, fn 1
    expected = np.array([1] * 5 + [0] * 5)
    predicted = np.array([1, 1, 1, 1, 0, 0, 0, 0, 1, 1])
    by_hand = (4 * 3 - 2 * 1) / math.sqrt(6 * 5 * 5 * 4)
    assert mcc(confusion(predicted, expected, 2)) == pytest.approx(by_hand)


def test_mcc_of_a_constant_answer_is_zero():
    assert mcc(confusion(np.zeros(4, dtype=int), np.array([0, 1, 0, 1]), 2)) == 0.0


def test_multi_label_f1_micro_and_macro():
    expected = np.array([[1, 0, 0], [1, 1, 0]], dtype=bool)
    predicted = np.array([[1, 1, 0], [0, 1, 0]], dtype=bool)
    micro, macro = multi_label_f1(predicted, expected)
    assert micro == pytest.approx(2 * 2 / (3 + 3))
    assert macro == pytest.approx((2 / 3 + 2 / 3) / 2)  # the third label is nowhere


def test_equal_values_share_their_mean_rank():
    np.testing.assert_array_equal(ranks([10, 20, 10, 30]), [1.5, 3, 1.5, 4])


def test_correlations_match_scipy_with_many_ties():
    generator = np.random.default_rng(0)
    a = generator.integers(0, 6, 200)
    b = a + generator.integers(0, 6, 200)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic)


def test_the_correlation_of_a_constant_is_zero():
    assert spearman([1, 1, 1], [1, 2, 3]) == 0.0


def test_majority_share_is_the_most_frequent_label():
    assert majority_share(["x", "y", "x", "x"]) == 0.75


@pytest.mark.parametrize(("hits", "total"), [(0, 10), (9, 10), (10, 10), (780, 872)])
def test_the_interval_of_a_share_is_scipys_wilson(hits, total):
    expected = stats.binomtest(hits, total).proportion_ci(method="wilson")
    assert wilson_interval(hits, total) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_the_interval_of_a_correlation_holds_it_and_shrinks():
    low, high = fisher_interval(0.8, 100)
    assert low < 0.8 < high
    assert fisher_interval(0.8, 10_000)[0] > low


def test_single_label_logits_are_measured_by_their_largest():
    split = make_split("dev", "here", ["x"] * 6, labels=[LABELS[i] for i in EXPECTED])
    found = evaluate_logits(np.eye(3)[PREDICTED], split, LABELS, "single_label_classification")
    assert found["accuracy"] == pytest.approx(0.5)
    assert found["majority"] == pytest.approx(0.5)
    assert found["interval"] == pytest.approx(wilson_interval(3, 6))
    assert found["per_class"]["b"]["support"] == 2


def test_multi_label_logits_are_cut_at_zero():
    targets = [("a", "c"), (), ("b",)]
    logits = np.array([[2.0, -1, 0.5], [-1, -1, -1], [1.0, -1, -1]])
    found = evaluate_logits(logits, targets, LABELS, "multi_label_classification")
    assert found["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["per_class"]["a"]["precision"] == pytest.approx(1 / 2)


def test_logits_of_another_shape_or_with_nan_are_refused():
    split = make_split("dev", "here", ["x"], labels=["a"])
    with pytest.raises(InputError, match=r"logits are \[1, 2\]"):
        evaluate_logits(np.zeros((1, 2)), split, LABELS, "single_label_classification")
    with pytest.raises(InputError, match="NaN"):
        evaluate_logits(np.full((1, 3), np.nan), split, LABELS, "single_label_classification")


def test_a_label_that_the_model_lacks_is_named():
    split = make_split("dev", "here", ["x"], labels=["z"])
    with pytest.raises(DataError, match="Labels z are not among a, b, c"):
        evaluate_logits(np.zeros((1, 3)), split, LABELS, "single_label_classification")


def test_a_split_without_labels_can_not_be_measured():
    with pytest.raises(DataError, match="no labels"):
        evaluate_logits(np.zeros((1, 3)), make_split("dev", "here", ["x"]), LABELS, None)
