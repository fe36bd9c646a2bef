"""Two limits and a goal: what they mean, which artifact is the best, which settings are refused."""

from __future__ import annotations

import pytest

from compress.searching.budget import Budget, Cost, Point, pareto
from compress.searching.config import SearchConfig, parse_latency
from edgebert.errors import InputError


def point(name: str, kept: float, size_mb: float, latency_ms: float) -> Point:
    cost = Cost(size_bytes=int(size_mb * 1e6), latency_ms=latency_ms)
    return Point(name=name, kept=kept, cost=cost)


SMALL = point("small", 0.95, 2, 1.0)
QUICK = point("quick", 0.97, 9, 0.5)
GOOD = point("good", 0.99, 8, 3.0)
WORSE = point("worse", 0.94, 3, 1.5)
ALL = [SMALL, QUICK, GOOD, WORSE]


@pytest.mark.parametrize(
    ("limits", "goal", "chosen"),
    [
        ({"max_size_bytes": 8_000_000, "max_latency_ms": 2.0}, "score", SMALL),
        ({"max_size_bytes": 8_000_000, "max_latency_ms": 3.0}, "score", GOOD),
        ({"max_drop": 0.05, "max_size_bytes": 8_500_000}, "latency", SMALL),
        ({"max_drop": 0.05, "max_size_bytes": 10_000_000}, "latency", QUICK),
        ({"max_drop": 0.02, "max_latency_ms": 5.0}, "size", GOOD),
        ({"max_drop": 0.001, "max_latency_ms": 5.0}, "size", None),
    ],
)
def test_what_is_not_limited_is_made_the_best_it_can_be(limits, goal, chosen):
    budget = Budget(**limits)
    assert budget.goal == goal
    assert budget.best(ALL) is chosen


def test_of_two_that_take_about_the_same_the_better_score_is_chosen():
    budget = Budget(max_drop=0.1, max_size_bytes=10_000_000)
    near = point("near", 0.99, 9, 0.505)
    assert budget.best([QUICK, near]) is near
    assert budget.best([QUICK, point("far", 0.99, 9, 0.52)]) is QUICK


def test_each_limit_that_is_broken_is_named_with_both_numbers():
    budget = Budget(max_drop=0.02, max_size_bytes=8_000_000)
    assert budget.misses(GOOD) == ()
    assert budget.misses(QUICK) == (
        "9.0 MB is more than 8.0 MB",
        "97.0 % kept is less than 98.0 %",
    )
    assert Budget(max_drop=0.1, max_latency_ms=2.5).misses(GOOD) == (
        "3.00 ms is more than 2.50 ms",
    )


def test_the_nearest_is_the_one_that_breaks_the_limits_least():
    budget = Budget(max_size_bytes=1_800_000, max_latency_ms=0.9)
    assert budget.nearest(ALL) is SMALL  # 11 % + 11 % over; the others 400 % of the size or more
    assert budget.nearest([]) is None


def test_the_front_is_what_no_other_beats():
    assert pareto(ALL) == [SMALL, QUICK, GOOD]


@pytest.mark.parametrize(
    ("text", "latency_ms"), [("3ms", 3.0), ("3", 3.0), ("0.5 s", 500.0), (" 800us", 0.8)]
)
def test_times_are_read_with_their_unit(text, latency_ms):
    assert parse_latency(text) == pytest.approx(latency_ms)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "Give exactly two of --max-drop, --max-size, --max-latency.*got none"),
        ({"max_drop": 0.01}, "exactly two of.*got --max-drop"),
        (
            {"max_drop": 0.01, "max_size": "8MB", "max_latency": "3ms"},
            "Give exactly two of.*got 3",
        ),
        ({"max_drop": -0.1, "max_size": "8MB"}, "max_drop must be from 0 to below 1, got -0.1"),
        ({"max_drop": 1.0, "max_size": "8MB"}, "max_drop must be from 0 to below 1, got 1.0"),
        ({"max_drop": 0.1, "max_size": "-8MB"}, "max_size must be a number of bytes above 0"),
        ({"max_drop": 0.1, "max_size": "0"}, "max_size must be a number of bytes above 0"),
        ({"max_drop": 0.1, "max_latency": "fast"}, "max_latency must be a time above 0.*'fast'"),
        ({"max_drop": 0.1, "max_latency": "0ms"}, "max_latency must be a time above 0"),
        ({"backend": ("onnx", "tflite")}, "A search is for one engine"),
        ({"backend": ("coreml",)}, "Unknown backend 'coreml'"),
        ({"extra_teacher": ("base",)}, "--extra-teacher can't be had in a search"),
        ({"early_exit": True}, "--early-exit and --layerdrop can't be had in a search"),
        ({"num_trials": 0}, "num_trials must be 1 or more, got 0"),
        ({"time_limit": 0.0}, "time_limit must be minutes above 0, got 0.0"),
        ({"vocab_size": (0,)}, "vocab_size must be 1 or more, got 0"),
    ],
)
def test_a_budget_that_means_nothing_is_refused(settings, message):
    both = {} if "max_drop" in settings or not settings else {"max_drop": 0.1, "max_size": "8MB"}
    with pytest.raises(InputError, match=message):
        SearchConfig(teacher="minilm", **{**both, **settings})
