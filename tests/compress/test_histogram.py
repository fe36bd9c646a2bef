"""Ranges of activations from a stream: the same in any order, and cut where they should be."""

from __future__ import annotations

import numpy as np
import pytest

from compress.artifacts.histogram import BINS, Histogram


def histogram_of(*parts):
    found = Histogram()
    for part in parts:
        found.add(np.asarray(part, dtype=np.float32))
    return found


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    return rng.normal(size=20_000).astype(np.float32) * np.geomspace(0.01, 30, 20_000).astype(
        np.float32
    )


def test_the_counts_are_those_of_all_numbers_at_once_in_any_order_and_pieces(numbers):
    whole = histogram_of(numbers)
    for parts in (np.array_split(numbers, 7), np.array_split(numbers[::-1], 50)):
        pieces = histogram_of(*parts)
        assert pieces.limit == whole.limit
        np.testing.assert_array_equal(pieces.counts, whole.counts)
    expected, _ = np.histogram(numbers, bins=BINS, range=(-whole.limit, whole.limit))
    np.testing.assert_array_equal(whole.counts, expected)


def test_a_number_on_the_limit_is_counted_where_it_will_be_when_the_limit_doubles():
    one, other = histogram_of([1.0, -1.0], [5.0]), histogram_of([5.0, 1.0, -1.0])
    np.testing.assert_array_equal(one.counts, other.counts)


def test_memory_does_not_grow_with_the_stream(numbers):
    found = histogram_of(*[numbers * scale for scale in (1, 10, 1000, 1e6)])
    assert found.counts.shape == (BINS,)
    assert found.counts.sum() == 4 * len(numbers)


def test_zeros_alone_are_a_range_of_nothing():
    found = histogram_of([0.0, 0.0])
    for low, high in (found.min_max(), found.percentile(), found.entropy()):
        assert low <= 0 <= high
        assert high - low < 1e-6


def test_min_max_is_exact():
    assert histogram_of([0.25, -3.5], [7.125]).min_max() == (-3.5, 7.125)


def test_a_percentile_leaves_so_many_out_on_each_side():
    numbers = np.arange(-500, 1500) / 100  # -5 to 14.99
    low, high = histogram_of(numbers).percentile(99.0)  # 20 of 2,000 on each side
    width = 2 * 16 / BINS
    assert low == pytest.approx(np.sort(numbers)[20], abs=2 * width)
    assert high == pytest.approx(np.sort(numbers)[-21], abs=2 * width)


def test_an_outlier_is_beyond_the_percentile_and_within_min_max(numbers):
    found = histogram_of(np.clip(numbers, -1, 1), [1000.0])
    assert found.min_max()[1] == 1000
    assert found.percentile(99.99)[1] < 2


def entropy_by_loops(numbers):
    """Search the threshold as the scheme's author wrote it down, bin by bin, in plain loops."""
    limit = histogram_of(numbers).limit
    counts, _ = np.histogram(np.abs(numbers), bins=2048, range=(0, limit))
    last = int(np.flatnonzero(counts)[-1]) + 1
    best, least = last, np.inf
    for end in [*range(128, last, 16), last]:
        wanted = [float(count) for count in counts[:end]]
        wanted[-1] += float(counts[end:].sum())
        given = [0.0] * end
        for level in range(128):
            bins = range(level * end // 128, (level + 1) * end // 128)
            filled = [one for one in bins if counts[one]]
            for one in filled:
                given[one] = sum(float(counts[each]) for each in bins) / len(filled)
        p, q = np.array(wanted) / sum(wanted), np.array(given) / sum(given)
        real = p > 0
        found = float((p[real] * np.log(p[real] / np.maximum(q[real], 1e-12))).sum())
        if found < least:
            best, least = end, found
    return best * limit / 2048


def test_entropy_cuts_where_a_search_by_plain_loops_does():
    rng = np.random.default_rng(1)
    numbers = np.concatenate([rng.normal(size=5000), rng.normal(size=10) * 20]).astype(np.float32)
    low, high = histogram_of(numbers).entropy()
    threshold = entropy_by_loops(numbers)
    assert threshold < np.abs(numbers).max()
    assert (low, high) == (
        max(-threshold, float(numbers.min())),
        min(threshold, float(numbers.max())),
    )
