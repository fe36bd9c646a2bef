"""How good predictions are, in numpy: plain functions, and one that reports all that fit a task.

Undefined values follow one rule: a rate without any case (recall of a class that never occurs) is
0, and a correlation of constant values is 0, so that a report never holds NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from compress.data.columns import Labels
from compress.data.load import Split
from compress.scoring.intervals import fisher_interval as fisher_interval
from compress.scoring.intervals import wilson_interval as wilson_interval
from edgebert.errors import DataError, InputError

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

MULTI_LABEL = "multi_label_classification"

# Metrics that can choose the best weights: whether more is better.
METRICS: dict[str, bool] = {
    "accuracy": True,
    "macro_f1": True,
    "micro_f1": True,
    "mcc": True,
    "pearson": True,
    "spearman": True,
    "entity_f1": True,
    "f1": True,
    "exact_match": True,
}


def main_metric(problem_type: str | None) -> str:
    """Name the metric that stands for a classifier in reports and gates."""
    return "micro_f1" if problem_type == MULTI_LABEL else "accuracy"


def accuracy(predicted: Ints, expected: Ints) -> float:
    """Give the share of equal entries, both int64 ``[n]``."""
    return float(np.mean(predicted == expected))


def confusion(predicted: Ints, expected: Ints, classes: int) -> Ints:
    """Count pairs of classes, int64 ``[expected, predicted]``."""
    table = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(table, (expected, predicted), 1)
    return table


def per_class(table: Ints, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Give recall, precision, F1, support and count of predictions of each class.

    Args:
        table: Of `confusion`, int64 ``[expected, predicted]``.
        labels: Names in the order of the classes.
    """
    hits, support, predicted = table.diagonal(), table.sum(axis=1), table.sum(axis=0)
    return {
        label: {
            "recall": _ratio(hits[i], support[i]),
            "precision": _ratio(hits[i], predicted[i]),
            "f1": _ratio(2 * hits[i], support[i] + predicted[i]),
            "support": int(support[i]),
            "predicted": int(predicted[i]),
        }
        for i, label in enumerate(labels)
    }


def _ratio(part: Any, whole: Any) -> float:  # numpy or python numbers
    return float(part) / float(whole) if whole else 0.0


def macro_f1(table: Ints) -> float:
    """Average the F1 of the classes that occur or are predicted, each with equal weight."""
    both = table.sum(axis=0) + table.sum(axis=1)
    seen = both > 0
    return float(np.mean(2 * table.diagonal()[seen] / both[seen])) if seen.any() else 0.0


def mcc(table: Ints) -> float:
    """Give the correlation of prediction and truth over any number of classes (Gorodkin, 2004)."""
    counts = table.astype(np.float64)
    total, hits = counts.sum(), counts.trace()
    expected, predicted = counts.sum(axis=1), counts.sum(axis=0)
    above = hits * total - expected @ predicted
    below = math.sqrt(float((total**2 - predicted @ predicted) * (total**2 - expected @ expected)))
    return float(above) / below if below else 0.0


def multi_label_f1(predicted: Bools, expected: Bools) -> tuple[float, float]:
    """Give micro and macro F1, both arrays bool ``[n, C]``.

    Micro counts all decisions together; macro averages the labels that occur or are predicted.
    """
    hits = (predicted & expected).sum(axis=0)
    both = predicted.sum(axis=0) + expected.sum(axis=0)
    seen = both > 0
    macro = float(np.mean(2 * hits[seen] / both[seen])) if seen.any() else 0.0
    return _ratio(2 * hits.sum(), both.sum()), macro


def pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Correlate two series, ``[n]`` each."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    x, y = x - x.mean(), y - y.mean()
    below = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / below if below else 0.0


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Correlate the ranks of two series, ``[n]`` each; equal values share their mean rank."""
    return pearson(ranks(a), ranks(b))


def ranks(values: npt.ArrayLike) -> Floats:
    """Rank from 1, equal values by the mean of their places, float64 ``[n]``."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse.ravel()], dtype=np.float64)


def majority_share(labels: Sequence[object]) -> float:
    """Give the accuracy of always answering the most frequent label."""
    if not labels:
        raise InputError("There are no labels to take the majority of.")
    return max(Counter(labels).values()) / len(labels)


def evaluate_logits(
    logits: npt.ArrayLike, split: Split | Labels, labels: Sequence[str], problem_type: str | None
) -> dict[str, Any]:
    """Measure a classifier's logits on a labelled split.

    Args:
        logits: ``[n, C]`` in the order of the split and of ``labels``.
        split: A split, or its labels alone: names, or tuples of names for multi-label.
        labels: Names in the order of the logits.
        problem_type: Multi-label takes every label of a logit above 0 (probability one half).

    Returns:
        Single label: ``accuracy``, its 95 % ``interval``, ``macro_f1``, ``mcc``, ``majority``,
        ``per_class``. Multi-label: ``micro_f1``, ``macro_f1``, ``accuracy`` (all labels of a text
        right), its ``interval``, ``per_class``. Always ``rows``.

    Raises:
        DataError: There are no labels to compare with, or one that ``labels`` lacks.
        InputError: The logits don't fit the split, or hold NaN or infinity.
    """
    targets = split.labels if isinstance(split, Split) else split
    if not targets:
        raise DataError("There are no labels to measure predictions with; give --label-column.")
    values = np.asarray(logits, dtype=np.float64)
    if values.shape != (len(targets), len(labels)):
        raise InputError(
            f"logits are {list(values.shape)}, but there are {len(targets)} rows and "
            f"{len(labels)} labels."
        )
    if not np.isfinite(values).all():
        raise InputError("logits hold NaN or infinity; the model is damaged.")
    if problem_type == MULTI_LABEL:
        return _evaluate_multi(values > 0, label_matrix(targets, labels), labels)
    return _evaluate_single(values.argmax(axis=1), label_ids(targets, labels), labels)


def _evaluate_single(predicted: Ints, expected: Ints, labels: Sequence[str]) -> dict[str, Any]:
    table = confusion(predicted, expected, len(labels))
    return {
        "accuracy": accuracy(predicted, expected),
        "interval": wilson_interval(int(table.trace()), len(expected)),
        "macro_f1": macro_f1(table),
        "mcc": mcc(table),
        "majority": majority_share(expected.tolist()),
        "per_class": per_class(table, labels),
        "rows": len(expected),
    }


def _evaluate_multi(predicted: Bools, expected: Bools, labels: Sequence[str]) -> dict[str, Any]:
    micro, macro = multi_label_f1(predicted, expected)
    right = (predicted == expected).all(axis=1)
    classes = {}
    for i, label in enumerate(labels):
        table = confusion(predicted[:, i].astype(np.int64), expected[:, i].astype(np.int64), 2)
        classes[label] = per_class(table, ("no", "yes"))["yes"]
    return {
        "micro_f1": micro,
        "macro_f1": macro,
        "accuracy": float(right.mean()),
        "interval": wilson_interval(int(right.sum()), len(right)),
        "per_class": classes,
        "rows": len(right),
    }


def label_ids(targets: Labels, labels: Sequence[str]) -> Ints:
    """Turn label names into places in ``labels``, int64 ``[n]``."""
    places = _places(targets, labels)
    return np.array([places[label] for label in targets], dtype=np.int64)


def label_matrix(targets: Labels, labels: Sequence[str]) -> Bools:
    """Turn tuples of label names into bool ``[n, C]``."""
    places = _places((name for names in targets for name in _several(names)), labels)
    matrix = np.zeros((len(targets), len(labels)), dtype=np.bool_)
    for row, names in enumerate(targets):
        matrix[row, [places[name] for name in _several(names)]] = True
    return matrix


def _several(names: object) -> tuple[str, ...]:
    return names if isinstance(names, tuple) else (str(names),)


def _places(used: Iterable[object], labels: Sequence[str]) -> dict[object, int]:
    places: dict[object, int] = {label: place for place, label in enumerate(labels)}
    unknown = sorted({str(label) for label in used if label not in places})
    if unknown:
        raise DataError(f"Labels {', '.join(unknown)} are not among {', '.join(labels)}.")
    return places
