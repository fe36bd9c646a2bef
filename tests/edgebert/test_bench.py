"""Timing by turns."""

import pytest

from edgebert.engines.bench import BLOCK, SETTLE_CALLS, interleaved_latency_ms
from edgebert.errors import InputError


def test_runs_take_turns_in_blocks_and_every_other_round_goes_backwards():
    calls = []
    runs = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    interleaved_latency_ms(runs, warmup=1, repeats=BLOCK + 1)
    full, rest = SETTLE_CALLS + BLOCK, SETTLE_CALLS + 1
    expected = "abc" + "a" * full + "b" * full + "c" * full + "c" * rest + "b" * rest + "a" * rest
    assert "".join(calls) == expected


def test_percentiles_are_of_the_timed_rounds_in_milliseconds(monkeypatch):
    # one run: begin and end of five rounds that take 1, 2, 3, 4 and 5 seconds
    clock = iter([0, 1, 10, 12, 20, 23, 30, 34, 40, 45])
    monkeypatch.setattr("edgebert.engines.bench.time.perf_counter", lambda: next(clock))
    latency = interleaved_latency_ms({"x": lambda: None}, warmup=2, repeats=5)
    assert latency == {"x": {"p50": 3000.0, "p95": pytest.approx(4800.0)}}


@pytest.mark.parametrize(("name", "value"), [("repeats", 0), ("warmup", -1)])
def test_a_number_of_rounds_that_means_nothing_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name} must be .* got {value}"):
        interleaved_latency_ms({}, **{name: value})
