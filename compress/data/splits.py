"""Seeded choices of rows that keep the share of each class, or what belongs together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def stratified_rows(
    classes: Sequence[Hashable], count: int, *, seed: int, leave_one: bool = False
) -> npt.NDArray[np.int64]:
    """Choose rows at random so that each class keeps its share and none is forgotten.

    Each row's place in its shuffled class, divided by the size of the class, says how early it is
    taken; the first of each class comes before all seconds.

    Args:
        classes: Class of each row.
        count: How many rows to choose.
        seed: Of the shuffle.
        leave_one: Never take the last row of a class, so that the rest has every class too.

    Returns:
        Row numbers, rising, int64 ``[<= count]``; fewer only where ``leave_one`` forbids more.
    """
    shuffled = np.random.default_rng(seed).permutation(len(classes))
    sizes = Counter(classes)
    taken: Counter[Hashable] = Counter()
    order: list[tuple[float, int]] = []
    for row in shuffled.tolist():
        name = classes[row]
        place = taken[name]
        taken[name] += 1
        if not (leave_one and place == sizes[name] - 1):
            order.append(((place + 0.5) / sizes[name] if place else 0.0, row))
    order.sort(key=lambda entry: entry[0])  # stable: rows of equal place stay shuffled
    return np.sort(np.array([row for _, row in order[:count]], dtype=np.int64))


def grouped_rows(groups: Sequence[Hashable], count: int, *, seed: int) -> npt.NDArray[np.int64]:
    """Choose whole groups at random until there are ``count`` rows, and leave one group or more.

    Args:
        groups: Group of each row.
        count: Least number of rows, where the groups allow it.
        seed: Of the shuffle.

    Returns:
        Row numbers, rising, int64 ``[n]``.
    """
    sizes = Counter(groups)
    names = list(sizes)
    chosen: set[Hashable] = set()
    rows = 0
    for place in np.random.default_rng(seed).permutation(len(names))[1:].tolist():
        if rows >= count:
            break
        chosen.add(names[place])
        rows += sizes[names[place]]
    return np.array([i for i, group in enumerate(groups) if group in chosen], dtype=np.int64)


def class_keys(labels: Sequence[Any] | None, rows: int) -> list[Hashable]:
    """Give what `stratified_rows` keeps the shares of: a row's label, or its rarest of several."""
    if labels is None or not labels or isinstance(labels[0], float):
        return [None] * rows
    if not isinstance(labels[0], tuple):
        return list(labels)
    counts = Counter(name for names in labels for name in names)
    return [min(names, key=lambda name: (counts[name], name), default=None) for names in labels]
