"""Logits to probabilities and labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebert.formats.manifest import PROBLEM_TYPES
from edgebert.inputs import check_choice, check_count
from edgebert.types import Classification, FloatArray, IntArray

MULTI_LABEL_THRESHOLD = 0.5


def softmax(logits: FloatArray) -> FloatArray:
    """Turn logits into probabilities that add up to 1.

    Args:
        logits: float32 ``[..., labels]``, of any size.

    Returns:
        float32, of the same shape.
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float32)


def sigmoid(logits: FloatArray) -> FloatArray:
    """Turn each logit into a probability of its own; shapes as `softmax`."""
    # exp of a negative number only, so that no logit overflows
    small = np.exp(-np.abs(logits.astype(np.float64)))
    return np.asarray(np.where(logits >= 0, 1.0, small) / (1.0 + small), dtype=np.float32)


def classify_logits(
    logits: FloatArray,
    labels: Sequence[str],
    problem_type: str | None,
    top_k: int | None,
    dropped: IntArray,
) -> list[Classification]:
    """Read a classifier's logits.

    Args:
        logits: float32 ``[n, labels]``.
        labels: Names in the order of the logits.
        problem_type: ``single_label_classification`` or ``multi_label_classification``.
        top_k: How many labels ``scores`` keeps, or None for all.
        dropped: Tokens cut off from each text, int64 ``[n]``.

    Returns:
        One a row; labels of equal score keep the order of ``labels``.

    Raises:
        InputError: ``top_k`` is below 1, or the problem type is another.
    """
    check_choice("problem_type", problem_type, PROBLEM_TYPES)
    kept = len(labels) if top_k is None else check_count("top_k", top_k)
    several = problem_type == "multi_label_classification"
    probabilities = sigmoid(logits) if several else softmax(logits)
    results = []
    for row, cut in zip(probabilities, dropped, strict=True):
        order = np.argsort(-row, kind="stable")
        scores = {labels[i]: float(row[i]) for i in order}
        best = labels[order[0]]
        above = tuple(name for name, score in scores.items() if score >= MULTI_LABEL_THRESHOLD)
        results.append(
            Classification(
                label=best,
                score=scores[best],
                scores=dict(list(scores.items())[:kept]),
                labels=above if several else (best,),
                dropped_tokens=int(cut),
            )
        )
    return results
