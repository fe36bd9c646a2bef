"""A student that learned nothing is not found by a search, whatever the limits allow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from compress.models.task_head import TaskHead
from compress.searching.grounds import at_chance

LABELS = [0, 0, 0, 1]


def grounds(metric: str):
    head = TaskHead(
        task="text-classification",
        labels=("bad", "good"),
        problem_type="single_label_classification",
    )
    encoded = SimpleNamespace(dev=SimpleNamespace(head=head))
    return SimpleNamespace(
        metric=metric,
        config=SimpleNamespace(task="text-classification"),
        data=SimpleNamespace(
            problem_type="single_label_classification", dev=SimpleNamespace(labels=LABELS)
        ),
        vocabularies=SimpleNamespace(whole=SimpleNamespace(encoded=encoded)),
    )


def trained(*scores: float):
    return SimpleNamespace(phases=[SimpleNamespace(scores=tuple(enumerate(scores)))])


@pytest.mark.parametrize(("best", "known"), [(0.75, True), (0.76, False)])
def test_the_most_frequent_class_alone_is_chance(best, known):
    found = at_chance(grounds("accuracy"), trained(0.5, best, 0.6))
    assert bool(found) is known
    assert not known or "0.7500" in found


def test_a_metric_without_a_measure_of_chance_says_nothing():
    assert at_chance(grounds("mcc"), trained(0.0)) == ""
