"""A score for the rows of a probe, with the metric that fits the task and the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compress.metrics import (
    evaluate_logits,
    fisher_interval,
    main_metric,
    spearman,
    wilson_interval,
)
from compress.probe import Probe
from compress.report_records import ClassRecord
from edgebert.types import FloatArray

SELF_METRICS = ("agreement", "cosine")  # with the FP32 model that an artifact was made of

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Score:
    """How good the rows of a probe are.

    Attributes:
        metric: ``accuracy``, ``micro_f1``, ``spearman``; ``agreement`` or ``cosine`` with the FP32
            reference where the data has no labels.
        value: Higher is better.
        interval: 95 % interval of the value, where one is known.
        per_class: For a labelled text-classification.
    """

    metric: str
    value: float
    interval: tuple[float, float] | None = None
    per_class: tuple[ClassRecord, ...] = ()


def score_rows(probe: Probe, values: FloatArray, reference: FloatArray) -> Score:
    """Score rows by the labels of the probe, or by the reference where there are none.

    Args:
        probe: Texts and labels.
        values: Rows to score, float32 ``[n, width]``.
        reference: Rows of the FP32 torch model, float32 ``[n, width]``.
    """
    head, split = probe.head, probe.split
    if probe.answers is not None:
        return _shares("accuracy", values.argmax(axis=1) == probe.answers)
    if head.task == "feature-extraction":
        if split.labels is None or split.text_pairs is None:
            return Score("cosine", float(cosines(values, reference).mean()))
        firsts, seconds = values[0::2], values[1::2]
        truth = np.asarray(split.labels, dtype=np.float64)
        value = spearman(cosines(firsts, seconds), truth)
        return Score("spearman", value, fisher_interval(value, len(truth)))
    if split.labels is None:
        same = predictions(probe, values) == predictions(probe, reference)
        return _shares("agreement", same.reshape(len(values), -1).all(axis=1))
    metric = main_metric(head.problem_type)
    found = evaluate_logits(values, split, head.labels, head.problem_type)
    classes = tuple(
        ClassRecord(label, one["recall"], one["precision"], one["support"])
        for label, one in found["per_class"].items()
    )
    interval = found["interval"] if metric == "accuracy" else None
    return Score(metric, found[metric], interval, classes)


def predictions(
    probe: Probe, values: FloatArray
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Give the class of each row, int64 ``[n]``; multi-label: 1 where it applies ``[n, C]``."""
    if probe.head.problem_type == "multi_label_classification":
        return (values > 0).astype(np.int64)
    return np.asarray(values.argmax(axis=1), dtype=np.int64)


def cosines(a: FloatArray, b: FloatArray) -> FloatArray:
    """Give the cosine of each row of ``a`` with that of ``b``, ``[n]``; 0 for a row of zeros."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.asarray((x * y).sum(axis=1) / np.where(norms == 0, 1.0, norms), dtype=np.float32)


def _shares(metric: str, right: BoolArray) -> Score:
    return Score(metric, float(right.mean()), wilson_interval(int(right.sum()), len(right)))
