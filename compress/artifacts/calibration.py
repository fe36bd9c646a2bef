"""The texts that INT8 recipes look at to learn how large activations get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from compress.data.task_data import Split, take
from compress.scoring.probe import Probe, probe_batch, sample_places, sample_probe
from edgebert.types import Batch

CALIBRATION_TEXTS = 128


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
