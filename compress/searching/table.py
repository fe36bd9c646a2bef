"""What a search found, for a terminal: the finalists, the front among them, what was tried."""

from __future__ import annotations

from collections import Counter

from compress.reporting import format as show
from compress.reporting.table import aligned
from compress.searching.budget import Budget
from compress.searching.records import Finalist, SearchResult

HEADS = ("trial", "student", "tokens", "size", "ms@32", "dev", "kept", "verdict")


def format_result(result: SearchResult) -> str:
    """Write the finalists as a table, then what was tried and what to know.

    Returns:
        Lines of ASCII, without a line end at the end.
    """
    teacher = ["teacher", "fp32", "", "", "", show.score(result.teacher_score), "100.0 %", ""]
    lines = [finalist_cells(result, one) for one in result.finalists]
    table = aligned([list(HEADS), teacher, *lines])
    rule = "-" * max(map(len, table))
    shown = ["", goal_words(result.budget), rule, table[0], rule, *table[1:], rule, *_notes(result)]
    return "\n".join(shown).encode("ascii", "replace").decode("ascii")


def goal_words(budget: Budget) -> str:
    """Say what is made the best it can be, under which limits."""
    goal = {"score": "The best score", "latency": "The fastest", "size": "The smallest"}
    limits = []
    if budget.max_drop is not None:
        limits.append(f"that keeps {show.percent(budget.least_kept)}")
    if budget.max_size_bytes is not None:
        limits.append(f"within {show.megabytes(budget.max_size_bytes)}")
    if budget.max_latency_ms is not None:
        limits.append(f"within {show.milliseconds(budget.max_latency_ms)}")
    return f"{goal[budget.goal]} {' and '.join(limits)}"


def finalist_cells(result: SearchResult, one: Finalist) -> list[str]:
    """Write a finalist as the cells under `HEADS`."""
    return [
        one.name,
        one.student,
        f"{one.vocab_size}",
        show.megabytes(one.cost.size_bytes),
        show.digits(one.cost.latency_ms),
        show.score(one.score),
        show.percent(one.kept),
        _verdict(result, one),
    ]


def _verdict(result: SearchResult, one: Finalist) -> str:
    words = []
    if one.name == result.chosen.name:
        words.append("CHOSEN")
    if one in result.front:
        words.append("front")
    return ", ".join([*words, *result.budget.misses(one)])


def _notes(result: SearchResult) -> list[str]:
    chosen = result.chosen
    notes = [
        f"{result.metric} on dev; ms@32: median of one text of 32 tokens on {result.backend}, "
        f"{result.threads} threads; front: no other beats it in score, size and time",
        f"{result.shapes} shapes: {result.counted('trained')} had a short training of "
        f"{result.short_steps} steps, {result.counted('stopped')} were stopped, "
        f"{result.counted('dropped')} dropped before; in all {show.duration(result.seconds)}",
    ]
    reasons = Counter(_kind(one.reason) for one in result.tried if one.outcome == "dropped")
    notes += [f"dropped {count}: {kind}" for kind, count in reasons.most_common()]
    if result.test_score is not None:
        notes.append(
            f"{result.metric} on test, read once: {show.score(result.test_score)} "
            f"({chosen.precision})"
        )
    return [*notes, *(f"note: {note}" for note in result.notes)]


def _kind(reason: str) -> str:
    kinds = {
        "by estimate": "too large by estimate",
        "no shape": "these numbers make no shape",
        "was tried": "was tried before",
        "which computes less": "a smaller shape was too slow already",
        "is more than": "over the budget as measured with random weights",
    }
    return next((text for sign, text in kinds.items() if sign in reason), reason[:80])
