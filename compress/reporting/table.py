"""The report as a table for a terminal, in plain ASCII: some consoles have no other characters."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from compress.reporting import format as show
from compress.reporting.exits import exit_heads, exit_notes, exit_rows
from compress.reporting.records import SPEED_KEY, ArtifactRow

if TYPE_CHECKING:
    from compress.report import Report

LONG_KEY = "b1_s128"
_WIDTH = 96


def format_table(report: Report) -> str:
    """Write a report as a table: the teacher, then one line an artifact, then what to know.

    Returns:
        Lines of ASCII, without a line end at the end.
    """
    heads = ["model", "size", report.metric, "95 % interval", "kept"]
    heads += ["ms@32", "ms@128", "texts/s", "faster", "gate"]
    lines = [_teacher(report), *(_artifact(report, r) for r in (*report.rows, *report.refused))]
    table = aligned([heads, *lines])
    rule = "-" * max(map(len, table))
    notes = [line for note in _footnotes(report) for line in _wrapped(note)]
    title = f"{report.title}: {report.student.name} from {report.teacher.used}, {report.task}"
    shown = ["", title, rule, table[0], rule, *table[1:], rule, *notes, *_exits(report)]
    return "\n".join(shown).encode("ascii", "replace").decode("ascii")


def _exits(report: Report) -> list[str]:
    """Write a second table for a model whose texts may leave early."""
    if not report.exits:
        return []
    rows = [cells for one in report.exits for cells in exit_rows(one)]
    table = aligned([exit_heads(report), *rows])
    rule = "-" * max(map(len, table))
    notes = [line for note in exit_notes(report) for line in _wrapped(note)]
    return [rule, table[0], rule, *table[1:], rule, *notes]


def _teacher(report: Report) -> list[str]:
    teacher = report.teacher
    times = [teacher.latency_ms.get(key) for key in (SPEED_KEY, LONG_KEY)]
    return [
        "teacher fp32",
        show.megabytes(teacher.size_bytes),
        show.score(teacher.score),
        _interval(teacher.interval),
        "100.0 %" if teacher.score is not None else show.MISSING,
        *(show.digits(t.p50) if t else show.MISSING for t in times),
        show.count(teacher.texts_per_s),
        "1.0x" if times[0] else show.MISSING,
        "",
    ]


def _artifact(report: Report, row: ArtifactRow) -> list[str]:
    times = [row.latency_ms.get(key) for key in (SPEED_KEY, LONG_KEY)]
    speedup = report.speedup(row)
    return [
        f"{row.backend} {row.precision}",
        show.megabytes(row.size_bytes),
        show.score(row.score),
        _interval(row.interval),
        show.percent(report.retention(row)),
        *(show.digits(t.p50) if t else show.MISSING for t in times),
        show.count(row.texts_per_s),
        f"{show.ratio(speedup)}x" if speedup else show.MISSING,
        "passed" if row.gate.passed else "REFUSED",
    ]


def _interval(value: tuple[float, float] | None) -> str:
    return show.MISSING if value is None else f"{value[0]:.3f}-{value[1]:.3f}"


def aligned(lines: list[list[str]]) -> list[str]:
    """Lay cells out in columns: the first and the last to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index in (0, len(widths) - 1) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _wrapped(note: str) -> list[str]:
    return textwrap.wrap(note, _WIDTH, subsequent_indent="  ", break_long_words=False)


def _footnotes(report: Report) -> list[str]:
    machine = report.machine
    where = f"{machine.get('cpu', 'unknown CPU')}, {machine.get('threads', '?')} threads"
    features = machine.get("features")
    if features:
        where += f", {' '.join(map(str, features))}"
    notes = [f"{report.metric} on {report.split}; ms@32: median of one text of 32 tokens", where]
    for row in report.refused:
        notes += [f"refused {row.backend} {row.precision}: {reason}" for reason in row.gate.reasons]
    notes += [f"note: {note}" for note in report.notes]
    return notes
