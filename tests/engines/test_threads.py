"""One Runtime, many threads: every answer is that of a single thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.engines.bundles import MAX_LENGTH
from tests.engines.methods import METHODS, numbers, texts_of_all_lengths, worst

POLICIES = ("truncate", "window")  # of which none may change another thread's


def calls_of(method):
    """Make calls that differ in their texts, how many, how long, and in what is done with them."""
    rng = np.random.default_rng(0)
    texts = [*texts_of_all_lengths(method, MAX_LENGTH), "the good film " * 30]
    chosen = [[texts[i] for i in rng.choice(len(texts), 1 + n % 4)] for n in range(24)]
    return [(chunk, POLICIES[n % 2]) for n, chunk in enumerate(chosen)]


def answers_differ(runtime, method, *, threads, calls_each):
    """Give how far any thread's answer is from that of a single thread."""
    calls = calls_of(method)
    expected = [numbers(runtime, method, chunk, on_long=policy) for chunk, policy in calls]

    def work(seed):
        farthest = 0.0
        for i in np.random.default_rng(seed).integers(0, len(calls), calls_each):
            chunk, policy = calls[i]
            found = numbers(runtime, method, chunk, on_long=policy)
            farthest = max(farthest, worst(found, expected[i]))
        return farthest

    with ThreadPoolExecutor(threads) as pool:
        return max(pool.map(work, range(threads)))


QUICK = "encode"


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name == QUICK else pytest.mark.slow)
        for name in METHODS
        if name != "fill_mask"  # whose second mask would be cut off
    ],
)
def test_many_threads_get_the_answers_of_one(artifact, runtime_of, method):
    runtime = runtime_of(METHODS[method].task, *artifact)
    assert answers_differ(runtime, method, threads=8, calls_each=20) == 0


@pytest.mark.slow
def test_sixteen_threads_get_the_answers_of_one_500_times(artifact, runtime_of):
    runtime = runtime_of(METHODS[QUICK].task, *artifact)
    assert answers_differ(runtime, QUICK, threads=16, calls_each=500) == 0
