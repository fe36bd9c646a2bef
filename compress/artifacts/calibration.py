"""The texts that INT8 recipes look at to learn how large activations get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from compress.data.task_data import Split, take
from compress.scoring.probe import Probe, probe_batch, sample_places, sample_probe
from edgebert.types import Batch

CALIBRATION_TEXTS = 128

T = TypeVar("T")


def calibration_batches(train: Split, encode: Callable[[Split], Probe]) -> list[Batch]:
    """Take evenly spaced texts of train, one a batch: those of dev would pass dev's gate too well.

    Args:
        train: Training rows.
        encode: As the bundle will.
    """
    places = sample_places(len(train), CALIBRATION_TEXTS)
    few = encode(take(train, places, name=train.name, source=train.source))
    sample = sample_probe(few, CALIBRATION_TEXTS)  # a text may make several rows
    return [probe_batch(sample, [row]) for row in range(len(sample))]


def single_texts(batches: Sequence[Batch]) -> Iterator[Batch]:
    """Take batches apart into single texts without padding, which would count as activations."""
    for batch in batches:
        for row, length in enumerate(np.asarray(batch.attention_mask).sum(axis=1)):
            yield batch.take(np.array([row]), int(length))


class Remembered(Generic[T]):
    """What was found of a file on some texts, kept for the next recipe and for trials."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._known: tuple[Path, int, Sequence[Batch], T] | None = None

    def of(self, source: Path, texts: Sequence[Batch], find: Callable[[], T]) -> T:
        """Give what was found of the same file on the same texts, or find it."""
        stamp, known = source.stat().st_mtime_ns, self._known
        if known is None or known[:2] != (source, stamp) or known[2] is not texts:
            known = self._known = (source, stamp, texts, find())
        return known[3]


def linked(products: Iterable[tuple[str, str]]) -> list[tuple[set[str], set[str]]]:
    """Put inputs that share a weight, and weights that share an input, together.

    Args:
        products: Names of an input and of the weight that it is multiplied by.

    Returns:
        Names of inputs, and names of weights, of each group.
    """
    takers: dict[str, set[str]] = defaultdict(set)
    for name, weight in products:
        takers[weight].add(name)
    groups: list[tuple[set[str], set[str]]] = []
    for weight, inputs in takers.items():
        merged = (set(inputs), {weight})
        for group in [one for one in groups if one[0] & inputs]:
            groups.remove(group)
            merged[0].update(group[0])
            merged[1].update(group[1])
        groups.append(merged)
    return groups
