"""Times on a busy machine: the quietest of a few rounds counts."""

from __future__ import annotations

import numpy as np
import pytest

from compress.artifacts import quietest


@pytest.mark.parametrize(
    ("shares", "expected", "rounds"),
    [
        ([1.0], {"a": 9.0, "b": 4.0}, 1),
        ([0.2, 0.95], {"a": 5.0, "b": 4.0}, 2),
        ([0.2, 0.3, 0.1, 0.2], {"a": 3.0, "b": 2.0}, 4),
    ],
    ids=["quiet at once", "quiet in the second round", "never quiet"],
)
def test_rounds_end_with_a_quiet_one_and_the_least_median_counts(
    monkeypatch, shares, expected, rounds
):
    pairs = [(9.0, 4.0), (5.0, 6.0), (3.0, 7.0), (8.0, 2.0)]
    medians = iter([{"a": a, "b": b} for a, b in pairs])
    told = iter([share for share in shares for _ in range(2)])
    asked = []

    def timed(_, **given):
        asked.append(given)
        return next(medians)

    monkeypatch.setattr(quietest, "core_share", lambda *_, **__: next(told))
    monkeypatch.setattr(quietest, "one_text_latency", timed)
    times, share = quietest.quietest_latency(
        {}, tokens=np.arange(3), max_length=32, threads=1, repeats=5
    )
    assert times == expected
    assert share == max(shares)
    assert len(asked) == rounds
