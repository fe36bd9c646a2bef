"""A score for the rows of a probe, with the metric that fits the task and the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compress.models.task_head import TaskHead
from compress.reporting.records import ClassRecord
from compress.scoring.answer_metrics import answer_scores
from compress.scoring.intervals import fisher_interval, ratio_interval, wilson_interval
from compress.scoring.metrics import evaluate_logits, main_metric, pearson, spearman
from compress.scoring.predictions import answers, calibrated, choices, true_answers, word_tags
from compress.scoring.predictions import predictions as predictions
from compress.scoring.probe import Probe
from compress.scoring.tag_metrics import evaluate_tags
from edgebert.errors import DataError
from edgebert.types import FloatArray

SELF_METRICS = ("agreement", "cosine", "correlation")  # with the FP32 model of an artifact

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Score:
    """How good the rows of a probe are.

    Attributes:
        metric: See `task_metric`; or ``agreement``, ``cosine`` or ``correlation`` with the FP32
            reference where the data has no labels.
        value: Higher is better.
        interval: 95 % interval of the value, where one is known.
        per_class: For a labelled text-classification, and by type for tags.
    """

    metric: str
    value: float
    interval: tuple[float, float] | None = None
    per_class: tuple[ClassRecord, ...] = ()


def task_metric(head: TaskHead) -> str:
    """Name the metric that stands for a task in reports and gates."""
    if head.task == "text-classification":
        return main_metric(head.problem_type)
    return _MAIN[head.task]


_MAIN = {
    "regression": "spearman",
    "token-classification": "entity_f1",
    "question-answering": "f1",
    "multiple-choice": "accuracy",
    "fill-mask": "accuracy",
    "feature-extraction": "spearman",
}


def has_labels(probe: Probe) -> bool:
    """Whether a probe can be scored without a reference."""
    if probe.answers is not None:
        return True
    pairs = probe.head.task != "feature-extraction" or probe.split.text_pairs is not None
    return probe.split.labels is not None and pairs


def evaluate_rows(probe: Probe, values: FloatArray) -> dict[str, Any]:
    """Measure rows by all metrics of their task.

    Args:
        probe: With labels.
        values: float32 ``[n, width]``.

    Returns:
        Metrics by name, ``interval`` (95 %, of `task_metric`), ``rows``, and ``per_class`` where a
        task has classes. Of ``token-classification`` ``entity_f1``, ``precision``, ``recall`` and
        ``accuracy``; of ``question-answering`` ``f1`` and ``exact_match``; of ``regression`` and
        scored pairs ``spearman`` and ``pearson``; of the others ``accuracy`` and its kin.

    Raises:
        DataError: There are no labels.
    """
    if not has_labels(probe):
        raise DataError(f"{probe.split.source} has no labels to measure with.")
    return _EVALUATE[probe.head.task](probe, values)


def _evaluate_classes(probe: Probe, values: FloatArray) -> dict[str, Any]:
    return evaluate_logits(values, probe.split, probe.head.labels, probe.head.problem_type)


def _evaluate_scores(probe: Probe, values: FloatArray) -> dict[str, Any]:
    return _correlations(values[:, 0], probe)


def _evaluate_vectors(probe: Probe, values: FloatArray) -> dict[str, Any]:
    return _correlations(cosines(values[0::2], values[1::2]), probe)


def _correlations(found: FloatArray, probe: Probe) -> dict[str, Any]:
    truth = np.asarray(probe.split.labels, dtype=np.float64)
    value = spearman(found, truth)
    return {
        "spearman": value,
        "pearson": pearson(found, truth),
        "interval": fisher_interval(value, len(truth)),
        "rows": len(truth),
    }


def _evaluate_tags(probe: Probe, values: FloatArray) -> dict[str, Any]:
    labels: list[Any] = probe.split.labels or []
    return evaluate_tags(word_tags(probe, values), labels)


def _evaluate_answers(probe: Probe, values: FloatArray) -> dict[str, Any]:
    exact, f1 = answer_scores(
        [text for _, text in answers(probe, values)], true_answers(probe) or []
    )
    return {
        "f1": float(f1.mean()),
        "exact_match": float(exact.mean()),
        "interval": ratio_interval(f1, np.ones(len(f1))),
        "rows": len(f1),
    }


def _evaluate_choices(probe: Probe, values: FloatArray) -> dict[str, Any]:
    return _shares(choices(probe, values) == np.asarray(probe.split.labels))


def _evaluate_masks(probe: Probe, values: FloatArray) -> dict[str, Any]:
    return _shares(values.argmax(axis=1) == probe.answers)


def _shares(right: BoolArray) -> dict[str, Any]:
    return {
        "accuracy": float(right.mean()),
        "interval": wilson_interval(int(right.sum()), len(right)),
        "rows": len(right),
    }


_EVALUATE: dict[str, Callable[[Probe, FloatArray], dict[str, Any]]] = {
    "text-classification": _evaluate_classes,
    "regression": _evaluate_scores,
    "token-classification": _evaluate_tags,
    "question-answering": _evaluate_answers,
    "multiple-choice": _evaluate_choices,
    "fill-mask": _evaluate_masks,
    "feature-extraction": _evaluate_vectors,
}


def score_rows(probe: Probe, values: FloatArray, reference: FloatArray) -> Score:
    """Score rows by the labels of the probe, or by the reference where there are none.

    A model that may say "no answer" does so from the probe's threshold on; where that isn't
    calibrated, from the one that is best for the reference on this very split.

    Args:
        probe: Texts and labels.
        values: Rows to score, float32 ``[n, width]``.
        reference: Rows of the FP32 torch model, float32 ``[n, width]``.
    """
    probe = calibrated(probe, reference)
    if not has_labels(probe):
        return _agreement(probe, values, reference)
    metric = task_metric(probe.head)
    found = evaluate_rows(probe, values)
    classes = tuple(
        ClassRecord(label, one["recall"], one["precision"], one["support"])
        for label, one in found.get("per_class", {}).items()
    )
    known = metric != "micro_f1"  # the interval of multi-label is that of its accuracy
    return Score(metric, found[metric], found["interval"] if known else None, classes)


def _agreement(probe: Probe, values: FloatArray, reference: FloatArray) -> Score:
    """Score by the reference: vectors, numbers, entities, or the share of equal predictions."""
    task = probe.head.task
    if task == "feature-extraction":
        return Score("cosine", float(cosines(values, reference).mean()))
    if task == "regression":
        return Score("correlation", pearson(values[:, 0], reference[:, 0]))
    if task == "token-classification":  # most words are O: they would hide what is lost
        found = evaluate_tags(word_tags(probe, values), word_tags(probe, reference))
        none = not found["per_class"]  # no entity on either side: they agree
        return Score("agreement", 1.0 if none else found["entity_f1"], found["interval"])
    same = predictions(probe, values) == predictions(probe, reference)
    right = _shares(same.reshape(len(same), -1).all(axis=1))
    return Score("agreement", right["accuracy"], right["interval"])


def cosines(a: FloatArray, b: FloatArray) -> FloatArray:
    """Give the cosine of each row of ``a`` with that of ``b``, ``[n]``; 0 for a row of zeros."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.asarray((x * y).sum(axis=1) / np.where(norms == 0, 1.0, norms), dtype=np.float32)
