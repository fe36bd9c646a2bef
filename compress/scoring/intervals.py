"""95 % intervals of what was measured on a sample."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgebert.errors import InputError

Z = 1.959964  # of the normal distribution, 95 % in the middle


def wilson_interval(hits: float, total: int, *, z: float = Z) -> tuple[float, float]:
    """Give the 95 % interval of a share (Wilson, 1927), good near 0 and 1 and for few cases."""
    if total < 1:
        raise InputError(f"An interval needs at least one case, got {total}.")
    share, spread = hits / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def fisher_interval(correlation: float, total: int, *, z: float = Z) -> tuple[float, float]:
    """Give the 95 % interval of a rank correlation.

    By Fisher's transform, with the variance of Bonett and Wright (2000), which fits Spearman's.
    """
    if total < 4 or abs(correlation) >= 1:
        return (-1.0, 1.0) if total < 4 else (correlation, correlation)
    middle = math.atanh(correlation)
    half = z * math.sqrt((1 + correlation**2 / 2) / (total - 3))
    return math.tanh(middle - half), math.tanh(middle + half)


def ratio_interval(
    parts: npt.ArrayLike, wholes: npt.ArrayLike, *, z: float = Z
) -> tuple[float, float]:
    """Give the 95 % interval of a ratio of sums over texts, such as micro F1 or a mean F1.

    By the variance of a ratio estimator (Cochran, 1977, chapter 6): texts are the sample, so
    entities of one text may be right or wrong together. At 0 and at 1, where that variance
    vanishes, it is Wilson's of so many texts.

    Args:
        parts: From 0 to its whole each, ``[n]``.
        wholes: ``[n]``; ones for the interval of a mean.
    """
    x, y = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    counted = int((y > 0).sum())
    if not counted:
        return 0.0, 1.0
    ratio = float(x.sum() / y.sum())
    if counted < 2 or not 0 < ratio < 1:
        return wilson_interval(ratio * counted, counted, z=z)
    rest = x - ratio * y
    variance = float(rest @ rest) * counted / (counted - 1) / float(y.sum()) ** 2
    half = z * math.sqrt(variance)
    return max(0.0, ratio - half), min(1.0, ratio + half)
