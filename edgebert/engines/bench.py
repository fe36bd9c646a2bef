"""Time several ways to do the same work, fairly."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import cycle, islice

import numpy as np

from edgebert.errors import InputError
from edgebert.formats.manifest import Manifest
from edgebert.types import Batch

SEQUENCE_LENGTHS = (8, 32, 128, 512)

BLOCK = 10  # calls of one run in a row
SETTLE_CALLS = 2  # at the start of a block, not timed: caches fill, the last run's threads sleep


def interleaved_latency_ms(
    runs: Mapping[str, Callable[[], object]], *, warmup: int = 3, repeats: int = 30
) -> dict[str, dict[str, float]]:
    """Time each run by turns, so that what disturbs the machine disturbs all of them alike.

    The ratio of two runs means something even on a busy machine; their milliseconds may not. A turn
    is a block of calls, as a single call would be timed with the caches of another engine and
    beside threads of it that still spin: torch before it made ONNX Runtime 1.6 times slower. Every
    other round goes backwards, so that none always follows the same neighbour.

    Args:
        runs: What to time, by name; each is called without arguments.
        warmup: Calls of each before the clock starts.
        repeats: Calls of each that are timed.

    Returns:
        ``{"p50": …, "p95": …}`` by name, wall-clock milliseconds of one call.

    Raises:
        InputError: ``warmup`` is below 0 or ``repeats`` below 1.
    """
    if warmup < 0:
        raise InputError(f"warmup must be 0 or more, got {warmup}.")
    if repeats < 1:
        raise InputError(f"repeats must be 1 or more, got {repeats}.")
    for _ in range(warmup):
        for run in runs.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number, done in enumerate(range(0, repeats, BLOCK)):
        for name in runs if number % 2 == 0 else reversed(list(runs)):
            seconds[name] += _block_seconds(runs[name], min(BLOCK, repeats - done))
    return {name: _summary_ms(values) for name, values in seconds.items()}


def lengths_to_time(manifest: Manifest) -> list[int]:
    """Give those of `SEQUENCE_LENGTHS` that the bundle takes, at least one length."""
    most = manifest.max_length
    return [length for length in SEQUENCE_LENGTHS if length <= most] or [most]


def batch_of_length(manifest: Manifest, length: int) -> Batch:
    """Make one text of exactly ``length`` tokens out of those of the golden inputs."""
    known = [token for ids in manifest.golden.input_ids for token in ids] or [0]
    input_ids = np.array([list(islice(cycle(known), length))], dtype=np.int64)  # [1, length]
    return Batch(
        input_ids=input_ids,
        attention_mask=np.ones_like(input_ids),
        token_type_ids=np.zeros_like(input_ids),
        dropped_tokens=np.zeros(1, dtype=np.int64),
    )


def _block_seconds(run: Callable[[], object], calls: int) -> list[float]:
    for _ in range(SETTLE_CALLS):
        run()
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds


def _summary_ms(seconds: list[float]) -> dict[str, float]:
    p50, p95 = np.percentile(seconds, [50, 95]) * 1000
    return {"p50": float(p50), "p95": float(p95)}
