"""How large activations get, learnt from a stream of them in little memory, and where to cut.

The bins are over ``[-limit, limit)``, and the limit is a power of two that doubles when a larger
number comes: two neighbours become one bin. So the counts don't depend on the order of the numbers,
nor on how they are cut into pieces.
"""

from __future__ import annotations

import numpy as np

from edgebert.types import FloatArray

BINS = 4096  # half of them for each sign: 2048 of |x|, as in the scheme of `Histogram.entropy`
LEVELS = 128  # of |x| in 8 bits
PERCENTILE = 99.999  # of the numbers on each side; MiniLM on 128 texts: some 10 are beyond it
_LEAST = 1e-30  # what is less is as good as 0, and its reciprocal still is a float32
_STEP = 16  # of the search for a threshold, in bins: finer ones move it by less than 1 %

Counts = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Histogram:
    """Counts of the numbers seen so far, and the least and the greatest of them."""

    def __init__(self) -> None:
        """Start with none."""
        self.counts: Counts = np.zeros(BINS, dtype=np.int64)
        self.limit = 0.0
        self.low, self.high = np.inf, -np.inf

    def add(self, values: FloatArray) -> None:
        """Count some numbers, of any shape."""
        low, high = float(values.min()), float(values.max())
        peak = max(-low, high, _LEAST)
        limit = float(2.0 ** (np.floor(np.log2(peak)) + 1))  # above it, so no number is on an edge
        while 0 < self.limit < limit:
            self._double()
        self.limit = max(self.limit, limit)
        self.low, self.high = min(self.low, low), max(self.high, high)
        places = np.floor(values.ravel() * (BINS / 2 / self.limit)).astype(np.int64) + BINS // 2
        self.counts += np.bincount(places, minlength=BINS)

    def _double(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(axis=1)
        self.counts = np.pad(pairs, BINS // 4)
        self.limit *= 2

    def min_max(self) -> tuple[float, float]:
        """Give the least and the greatest number."""
        return self.low, self.high

    def percentile(self, percent: float = PERCENTILE) -> tuple[float, float]:
        """Leave out the outermost numbers of each side, to the width of a bin."""
        below = np.cumsum(self.counts)
        beyond = below[-1] * (1 - percent / 100)
        first = int(np.searchsorted(below, beyond, side="right"))
        last = int(np.searchsorted(below, below[-1] - beyond, side="left"))
        width = 2 * self.limit / BINS
        return self._within(first * width - self.limit, (last + 1) * width - self.limit)

    def entropy(self) -> tuple[float, float]:
        """Cut where 8 bits tell least of another distribution than that of all numbers.

        The threshold of |x| has the least Kullback-Leibler divergence between the counts, those
        beyond it put on its edge, and the same in 128 levels (Migacz, 8-bit inference with
        TensorRT, 2017).
        """
        half = BINS // 2
        folded = self.counts[half:] + self.counts[:half][::-1]
        used = int(np.flatnonzero(folded)[-1]) + 1
        ends = [*range(LEVELS, max(used, LEVELS), _STEP), max(used, LEVELS)]
        best = min(ends, key=lambda end: _divergence(folded, end))
        threshold = best * self.limit / half
        return self._within(-threshold, threshold)

    def _within(self, low: float, high: float) -> tuple[float, float]:
        return max(low, self.low), min(high, self.high)


def _divergence(folded: Counts, end: int) -> float:
    """Give the divergence in nats when |x| is cut at bin ``end``."""
    kept = folded[:end]
    wanted = kept.astype(np.float64)
    wanted[-1] += folded[end:].sum()
    edges = np.arange(LEVELS) * end // LEVELS
    filled = np.maximum(np.add.reduceat(kept > 0, edges, dtype=np.int64), 1)
    level = np.repeat(np.arange(LEVELS), np.diff([*edges, end]))
    given = np.where(kept > 0, (np.add.reduceat(kept, edges) / filled)[level], 0.0)
    wanted, given = wanted / wanted.sum(), np.maximum(given / max(given.sum(), 1.0), 1e-12)
    real = wanted > 0
    return float((wanted[real] * np.log(wanted[real] / given[real])).sum())
