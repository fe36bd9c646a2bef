"""Where a search begins, how its time is spent, and which precision meets the limits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from compress.searching import starts as starts_module
from compress.searching.budget import Budget, Cost
from compress.searching.clock import Clock
from compress.searching.grounds import StepClock, fitting_cost
from compress.searching.shapes import Shape, Space
from compress.searching.starts import good_starts, make_plan

TEACHER = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12}
PLAIN = {"L": (1, 2, 3, 4, 5, 6), "H": (64, 128, 256), "I": (1, 4), "V": (1000, 9000)}


class Meter:
    """A layer takes a microsecond for each of its width in INT8, and four times that in FP32."""

    lengths, precisions = (32,), ("fp32", "int8")

    def __init__(self):
        self.asked: list[str] = []

    def too_slow(self, _shape, _budget):
        return ""

    def costs(self, shape: Shape) -> dict[str, Cost]:
        self.asked.append(str(shape))
        one = shape.architecture
        time = one.num_hidden_layers * one.hidden_size / 1000
        return {
            name: Cost(size_bytes=size_of(shape, name), latency_ms=time * slower)
            for name, slower in (("fp32", 4.0), ("int8", 1.0))
        }


def size_of(shape: Shape, precision: str) -> int:
    """The table and ten thousand bytes a layer, in FP32 four times that."""
    one = shape.architecture
    size = shape.vocab_size * one.hidden_size + 10_000 * one.num_hidden_layers
    return size if precision == "int8" else 4 * size


def grounds_of(budget: Budget, dimensions=PLAIN, **settings):
    return SimpleNamespace(
        budget=budget,
        config=SimpleNamespace(engine="onnx", **settings),
        space=Space(dimensions, TEACHER),
        meter=Meter(),
        estimator=SimpleNamespace(
            size_bytes=lambda shape, _engine, precision, lengths: size_of(shape, precision)  # noqa: ARG005
        ),
    )


def shapes(grounds, clock) -> list[str]:
    found = [grounds.space.shape(places) for places in good_starts(grounds, clock)]
    return [
        f"{one.architecture.num_hidden_layers}x{one.architecture.hidden_size},{one.vocab_size}"
        for one in found
    ]


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock.json", limit_s=3600)


def test_of_each_width_the_deepest_shape_with_the_largest_vocabulary_is_tried_first(clock):
    grounds = grounds_of(Budget(max_size_bytes=1_300_000, max_latency_ms=0.6))
    assert shapes(grounds, clock) == ["2x256,1000", "4x128,9000", "6x64,9000"]
    assert len(grounds.meter.asked) <= 3 * 3  # the depth is halved, not counted down


def test_where_cost_is_the_goal_half_the_depth_is_tried_too(clock):
    grounds = grounds_of(Budget(max_size_bytes=700_000, max_drop=0.05))
    assert shapes(grounds, clock) == ["6x256,1000", "3x256,1000", "6x128,1000", "3x128,1000",
                                      "6x64,9000", "3x64,9000"]  # fmt: skip


def test_widths_that_do_not_fit_at_all_are_left_out(clock):
    grounds = grounds_of(Budget(max_size_bytes=10**7, max_latency_ms=0.1))
    assert shapes(grounds, clock) == ["1x64,9000"]


def test_given_shapes_all_are_starts(clock):
    dimensions = {"student": ("a", "b"), "V": (10, 20)}
    grounds = grounds_of(Budget(max_size_bytes=1, max_latency_ms=1.0), dimensions)
    assert good_starts(grounds, clock) == [
        {"student": a, "V": v} for a in (0, 1) for v in (0, 1)
    ]  # fmt: skip


def test_a_precision_that_breaks_no_limit_is_found_or_each_is_told():
    shape = grounds_of(Budget()).space.shape({"L": 1, "H": 1, "I": 0, "V": 0})  # 148 kB, 0.256 ms
    precision, cost = fitting_cost(
        grounds_of(Budget(max_size_bytes=200_000, max_latency_ms=0.3)), shape
    )
    assert (precision, cost.size_bytes) == ("int8", 148_000)
    slow = fitting_cost(grounds_of(Budget(max_size_bytes=200_000, max_latency_ms=0.2)), shape)
    assert slow == (
        "fp32: 0.6 MB is more than 0.2 MB, 1.02 ms is more than 0.20 ms; "
        "int8: 0.26 ms is more than 0.20 ms"
    )
    large = grounds_of(Budget(max_size_bytes=100_000, max_latency_ms=9.0))
    assert fitting_cost(large, shape) == "by estimate, 143,560 bytes is more than 100,000 bytes"
    assert large.meter.asked == []


def test_short_trainings_fill_the_time_that_is_for_them(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(starts_module, "epoch_steps", lambda *_: 100_000)
    monkeypatch.setattr(starts_module, "_step_seconds", lambda *_: 0.5)
    grounds = grounds_of(Budget(), time_limit=60, num_trials=40, max_steps=None)
    grounds.estimator.weights = lambda _: SimpleNamespace(matrices=1)
    starts = [dict.fromkeys(PLAIN, 0)]
    plan = make_plan(grounds, clock, starts, tmp_path / "plan.json")
    assert plan.search_part == pytest.approx(0.55, abs=0.01)
    assert plan.short_steps == pytest.approx(0.55 * 3600 / 16 / 0.5, rel=0.02)
    assert make_plan(grounds, clock, [], tmp_path / "plan.json") == plan  # read back


def test_a_clock_goes_on_where_a_killed_run_had_saved_it(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("compress.searching.clock.time.monotonic", lambda: now[0])
    first = Clock(tmp_path / "clock.json", limit_s=60)
    now[0] += 20
    first.save()
    now[0] += 1000
    again = Clock(tmp_path / "clock.json", limit_s=60)
    now[0] += 10
    assert (again.spent_s, again.left_s(), again.left_s(0.5)) == (30, 30, 0)
    now[0] += 100
    assert again.left_s() == 0


def test_the_time_of_a_step_leaves_out_what_is_measured_between(monkeypatch):
    now = iter([0.0, 2.0, 4.0, 94.0, 100.0, 103.0])
    monkeypatch.setattr("compress.searching.grounds.time.monotonic", lambda: next(now))
    clock = StepClock()
    for entry in ({"loss": 1}, {"loss": 1}, {"loss": 1}, {"accuracy": 1}, {"loss": 1}, {"loss": 1}):
        clock.entry(entry)
    assert clock.seconds == [2.0, 2.0, 3.0]
    assert clock.step_s == pytest.approx(7 / 3)
