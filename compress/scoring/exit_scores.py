"""What leaving early costs and saves, out of the logits of every exit of every text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compress.scoring.probe import Probe
from compress.scoring.scores import Score, score_rows
from edgebert.engines.exits import entropies
from edgebert.types import FloatArray, IntArray

MOST_CANDIDATES = 256  # thresholds; each costs a score


@dataclass(frozen=True, eq=False)
class EarlyRows:
    """What texts come to that leave early.

    Attributes:
        values: Logits of the exit that each left by, float32 ``[n, C]``.
        layers: Of that exit, from 1, int64 ``[n]``.
    """

    values: FloatArray
    layers: IntArray

    @property
    def mean_layers(self) -> float:
        """Layers that a text goes through."""
        return float(self.layers.mean())


def by_exit(values: FloatArray, layers: int) -> list[FloatArray]:
    """Take the logits of all exits apart: from ``[n, layers * C]`` to ``[n, C]`` each."""
    return np.split(values, layers, axis=1)


def leave_early(values: FloatArray, layers: int, threshold: float) -> EarlyRows:
    """Let each text leave at its first exit below the threshold, as the runtime does.

    Args:
        values: Of all exits, float32 ``[n, layers * C]``.
        layers: How many exits there are, the last layer's included.
        threshold: See `edgebert.engines.exits.run_exits`.
    """
    exits = np.stack(by_exit(values, layers))  # [layers, n, C]
    unsure = np.stack([entropies(own) for own in exits])  # [layers, n]
    leaves = (unsure < threshold) | (threshold >= 1)
    leaves[-1] = True
    first = leaves.argmax(axis=0)  # [n]
    return EarlyRows(exits[first, np.arange(exits.shape[1])], first + 1)


def calibrate_threshold(
    probe: Probe, values: FloatArray, layers: int, reference: FloatArray, *, budget: float
) -> float:
    """Choose the threshold with which texts go through the fewest layers within a budget.

    Args:
        probe: Dev.
        values: Of all exits, float32 ``[n, layers * C]``.
        layers: How many exits there are.
        reference: Rows of the torch model, for a split without labels.
        budget: Part of the metric through all layers that may be lost.

    Returns:
        A threshold; 0 where only going through all layers keeps to the budget. It lies half way
        between two entropies of dev, so that a tiny difference of logits changes no exit there.
    """
    parts = by_exit(values, layers)
    whole = score_rows(probe, parts[-1], reference).value
    least = whole - budget * abs(whole) - 1e-9  # exactly the budget is within it
    for threshold in _candidates(np.concatenate([entropies(own) for own in parts[:-1]])):
        found = leave_early(values, layers, threshold).values
        if score_rows(probe, found, reference).value >= least:
            return threshold
    return 0.0


def _candidates(found: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float]:
    """Give thresholds between entropies that were found, the largest first; 1 before all."""
    distinct = np.unique(found)
    between = (distinct[1:] + distinct[:-1]) / 2
    places = np.linspace(0, len(between) - 1, min(len(between), MOST_CANDIDATES))
    chosen = between[np.unique(places.astype(np.int64))] if len(between) else between
    return [1.0, *(float(one) for one in chosen[::-1] if 0 < one < 1)]


def depth_scores(
    probe: Probe, values: FloatArray, layers: int, reference: FloatArray
) -> list[Score]:
    """Score every exit as if all texts left there, the first layer's first."""
    return [score_rows(probe, own, reference) for own in by_exit(values, layers)]
