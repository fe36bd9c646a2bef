"""Which run is the fastest: on a clock that only the runs move."""

import numpy as np
import pytest

from edgebert.engines.measuring import measure
from edgebert.errors import BackendRunError
from edgebert.types import Batch


class Clock:
    """Stands still but for what the runs take."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.calls = []
        monkeypatch.setattr("edgebert.engines.measuring.time.perf_counter", lambda: self.now)

    def run(self, name, *, fixed=0.0, a_token=0.0, first=0.0, fails_at=None):
        """Make a run that takes so many seconds, and ``first`` more when a length is new."""
        seen = set()

        def run(batch):
            length = batch.input_ids.shape[1]
            self.calls.append((name, length))
            if length == fails_at:
                raise BackendRunError(f"{name} failed")
            self.now += fixed + a_token * length + (0 if length in seen else first)
            seen.add(length)

        return run


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def text_of(length):
    ids = np.ones((1, length), dtype=np.int64)
    return Batch(ids, ids, ids * 0, ids[:, 0] * 0)


TEXTS = [text_of(length) for length in (8, 32, 128, 512)]


def never(_, error):
    raise error


def test_the_geometric_mean_over_lengths_decides(clock):
    # in hundredths of a ms at 8, 32, 128, 512 tokens: 16, 40, 136, 520 and 12, 36, 132, 516
    runs = {
        "large": clock.run("large", fixed=8e-5, a_token=1e-5),
        "middle": clock.run("middle", fixed=4e-5, a_token=1e-5),
        "flat": clock.run("flat", fixed=2e-4),
    }
    measured = measure(runs, TEXTS, on_failure=never)
    assert list(measured.latency_ms) == ["flat", "middle", "large"]
    assert measured.latency_ms["middle"] == pytest.approx({8: 0.12, 32: 0.36, 128: 1.32, 512: 5.16})
    assert measured.mean_ms("flat") == pytest.approx(0.2)
    assert measured.mean_ms("middle") == pytest.approx((0.12 * 0.36 * 1.32 * 5.16) ** 0.25)


def test_the_first_call_at_a_length_is_not_counted(clock):
    measured = measure(
        {"a": clock.run("a", fixed=1e-3, first=0.05), "b": clock.run("b", fixed=2e-3)},
        TEXTS,
        on_failure=never,
    )
    assert measured.fastest == "a"
    assert measured.mean_ms("a") == pytest.approx(1.0)


@pytest.mark.parametrize("a_token", [1e-6, 1e-5, 1e-4, 1e-3])
def test_it_ends_within_its_budget(clock, a_token):
    runs = {f"run {i}": clock.run(f"run {i}", a_token=a_token * (1 + i)) for i in range(6)}
    measured = measure(runs, TEXTS, on_failure=never, budget_seconds=2.0)
    assert clock.now <= 102.0 + 1e-6
    assert measured.fastest == "run 0"


def test_a_length_that_there_is_no_time_for_is_left_out(clock):
    runs = {"a": clock.run("a", a_token=3e-3), "b": clock.run("b", a_token=5e-3)}
    measured = measure(runs, TEXTS, on_failure=never, budget_seconds=2.0)
    assert measured.lengths == [8, 32]  # two calls of each with 128 tokens take 2.05 seconds
    assert max(length for _, length in clock.calls) == 32


def test_even_a_run_of_seconds_is_called_twice_and_one_not_reached_is_last(clock):
    runs = {"a": clock.run("a", fixed=30), "b": clock.run("b", fixed=1)}
    measured = measure(runs, TEXTS, on_failure=never, budget_seconds=2.0)
    assert measured.latency_ms == {"a": {8: pytest.approx(30_000)}, "b": {}}
    assert (measured.fastest, measured.reached, measured.mean_ms("b")) == ("a", 1, None)
    assert [name for name, _ in clock.calls] == ["a", "a"]


def test_runs_without_hope_are_left_out_but_for_the_best_of_them(clock):
    factors = {"a": 1, "b": 2.5, "c": 3, "d": 4}
    runs = {name: clock.run(name, a_token=1e-5 * by) for name, by in factors.items()}
    measured = measure(runs, TEXTS, on_failure=never)
    assert {name: max(own) for name, own in measured.latency_ms.items()} == {
        "a": 512,
        "b": 512,
        "c": 32,
        "d": 32,
    }
    assert measured.mean_ms("c") is None


def test_a_run_that_is_slow_on_short_texts_only_goes_on(clock):
    runs = {
        "a": clock.run("a", a_token=1e-5),
        "b": clock.run("b", a_token=1.1e-5),
        "c": clock.run("c", fixed=3e-4),  # 3.8 times the best at 8 tokens, the fastest from 32 on
    }
    assert measure(runs, TEXTS, on_failure=never).fastest == "c"


def test_a_run_that_fails_is_told_of_and_left_out(clock):
    told = []
    runs = {"a": clock.run("a", fixed=1e-3, fails_at=128), "b": clock.run("b", fixed=2e-3)}
    measured = measure(runs, TEXTS, on_failure=lambda name, _: told.append(name))
    assert told == ["a"]
    assert list(measured.latency_ms) == ["b"]
    assert measured.lengths == [8, 32, 128, 512]


def test_turns_go_forth_and_back(clock):
    runs = {"a": clock.run("a", fixed=1e-3), "b": clock.run("b", fixed=1e-3)}
    measure(runs, TEXTS[:1], on_failure=never, budget_seconds=0.1)
    order = "".join(name for name, _ in clock.calls)
    assert order.startswith("aabb" + "a" * 11 + "b" * 11 + "b" * 11 + "a" * 11)
