"""Thresholds keep to their budget, and save as much as that allows."""

from __future__ import annotations

import numpy as np
import pytest

from compress.data.encoding import EncodedTexts
from compress.data.load import Split
from compress.models.task_head import TaskHead
from compress.scoring.exit_scores import calibrate_threshold, depth_scores, leave_early
from compress.scoring.probe import Probe
from compress.scoring.task_rows import TaskRows
from edgebert.engines.exits import entropies, run_exits
from edgebert.types import Batch

LABELS = ("no", "yes")
# Ten texts, the true label of each 1; at the first exit surer from text to text, and wrong where
# the number is below 0; the last layer is right on all.
FIRST = [9.0, 8.0, -7.0, 6.0, 5.0, 4.0, -3.0, 2.0, -1.0, 0.5]


def probe_of(labels: list[str] | None) -> Probe:
    count = len(FIRST)
    texts = [f"text {i}" for i in range(count)]
    split = Split("dev", "made", texts, None, labels, "0" * 64)
    ids = [np.array([2, 3], dtype=np.int32)] * count
    encoded = EncodedTexts(ids, ids, "0" * 64, np.zeros(count, dtype=np.int64))
    head = TaskHead(
        task="text-classification", labels=LABELS, problem_type="single_label_classification"
    )
    return Probe(split, head, TaskRows(encoded, np.arange(count)), 0)


def values() -> np.ndarray:
    """Logits of both exits, float32 ``[10, 4]``."""
    rows = [[0.0, one, 0.0, 4.0] for one in FIRST]
    return np.array(rows, dtype=np.float32)


def leaving(threshold: float) -> list[int]:
    return leave_early(values(), 2, threshold).layers.tolist()


@pytest.mark.parametrize(
    ("budget", "early"),
    [
        (0.0, 2),  # the third-surest is wrong at the first exit
        (0.09, 2),
        (0.1, 6),  # one of ten may be wrong, so up to the second one that is
        (0.2, 8),
        (0.3, 10),
    ],
)
def test_as_many_texts_leave_early_as_the_budget_has_room_for(budget, early):
    data = probe_of(["yes"] * 10)
    threshold = calibrate_threshold(data, values(), 2, values()[:, 2:], budget=budget)
    assert leaving(threshold) == [1] * early + [2] * (10 - early)


def test_where_the_surest_is_wrong_no_text_leaves_early():
    wrong = values()
    wrong[:, 1] *= -1  # now the two surest are
    threshold = calibrate_threshold(probe_of(["yes"] * 10), wrong, 2, wrong[:, 2:], budget=0.0)
    assert threshold == 0
    assert leave_early(wrong, 2, threshold).layers.tolist() == [2] * 10


def test_without_labels_the_budget_is_of_the_agreement_with_the_torch_model():
    threshold = calibrate_threshold(probe_of(None), values(), 2, values()[:, 2:], budget=0.1)
    assert leaving(threshold) == [1] * 6 + [2] * 4


def test_a_threshold_lies_half_way_between_two_entropies():
    found = calibrate_threshold(probe_of(["yes"] * 10), values(), 2, values()[:, 2:], budget=0.0)
    second, third = entropies(values()[1:3, :2])
    assert found == pytest.approx((second + third) / 2)


def test_a_split_is_scored_as_the_runtime_leaves():
    rows = values()
    ids = np.arange(10)[:, None] + 1
    batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids), np.zeros(10, dtype=np.int64))

    def segment(start):
        def run(batch):
            numbers = batch.input_ids[:, 0] - 1
            hidden = np.zeros((len(numbers), 1, 1), dtype=np.float32)
            return {"logits": rows[numbers, start : start + 2], "last_hidden_state": hidden}

        return run

    logits, layers = run_exits([segment(0), segment(2)], batch, 0.4)
    early = leave_early(rows, 2, 0.4)
    np.testing.assert_array_equal(layers, early.layers)
    np.testing.assert_array_equal(logits, early.values)
    assert set(layers.tolist()) == {1, 2}


def test_every_depth_has_a_score():
    scores = depth_scores(probe_of(["yes"] * 10), values(), 2, values()[:, 2:])
    assert [one.value for one in scores] == [0.7, 1.0]
