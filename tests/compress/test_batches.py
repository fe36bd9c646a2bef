from __future__ import annotations

import numpy as np
import pytest

from compress.training.batches import LengthBatches
from edgebert.errors import DataError, InputError


def lengths(rows: int) -> np.ndarray:
    return np.random.default_rng(0).integers(3, 60, rows)


def test_an_epoch_has_every_row_once():
    rows = np.concatenate(LengthBatches(lengths(1003), batch_size=8, seed=1).epoch(0))
    np.testing.assert_array_equal(np.sort(rows), np.arange(1003))


def test_one_batch_of_an_epoch_may_be_smaller_and_none_larger():
    sizes = sorted(len(b) for b in LengthBatches(lengths(1003), batch_size=8, seed=1).epoch(0))
    assert sizes == [3] + [8] * 125


def test_the_number_of_batches_is_known_before():
    batches = LengthBatches(lengths(1003), batch_size=8, seed=1)
    assert len(batches) == len(batches.epoch(0)) == 126


def test_an_epochs_order_needs_no_earlier_epoch():
    straight = LengthBatches(lengths(99), batch_size=4, seed=1)
    for number in range(3):
        straight.epoch(number)
    fresh = LengthBatches(lengths(99), batch_size=4, seed=1)
    for a, b in zip(straight.epoch(3), fresh.epoch(3), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("seed", "epoch"), [(2, 0), (1, 1)])
def test_another_seed_or_epoch_gives_another_order(seed, epoch):
    first = np.concatenate(LengthBatches(lengths(99), batch_size=4, seed=1).epoch(0))
    other = np.concatenate(LengthBatches(lengths(99), batch_size=4, seed=seed).epoch(epoch))
    assert (first != other).any()


def test_batches_hold_less_than_a_tenth_padding():
    sizes = lengths(4000)
    cells = sum(
        len(b) * sizes[b].max() for b in LengthBatches(sizes, batch_size=8, seed=1).epoch(0)
    )
    assert sizes.sum() / cells > 0.9


def test_short_and_long_batches_are_mixed():
    sizes = lengths(400)  # one chunk, sorted before the batches are shuffled
    means = [sizes[b].mean() for b in LengthBatches(sizes, batch_size=8, seed=1).epoch(0)]
    assert means != sorted(means)


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="no row"):
        LengthBatches([], batch_size=4, seed=0)


def test_a_batch_size_below_one_is_refused():
    with pytest.raises(InputError, match="batch_size must be 1 or more, got 0"):
        LengthBatches([3], batch_size=0, seed=0)
