"""``report.html``: one file that needs no network, no script and no font of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compress.reporting import details
from compress.reporting import format as show
from compress.reporting.candidates import candidates_section
from compress.reporting.exits import exits_section
from compress.reporting.markup import Markup, el, join
from compress.reporting.plots import Mark, squares
from compress.reporting.records import SPEED_KEY, ArtifactRow
from compress.reporting.sections import NOTHING, artifacts, badge, comparison, gates, name_of
from compress.reporting.style import STYLE

if TYPE_CHECKING:
    from compress.report import Report

_MARK = (  # a square within a square: the teacher and what is left of it
    '<svg viewBox="0 0 24 24" aria-hidden="true"><rect x="1.5" y="1.5" width="21" height="21" '
    'rx="5" fill="none" stroke="var(--teacher)" stroke-width="2"/><rect x="5" y="11" width="8" '
    'height="8" rx="2" fill="var(--int8)"/></svg>'
)
_WARNING = (
    '<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 3l8 14H2z" fill="none" '
    'stroke="currentColor" stroke-width="1.8" stroke-linejoin="round"/>'
    '<path d="M10 8.5v4m0 1.6v.6" stroke="currentColor" stroke-width="1.8"/></svg>'
)


def render_html(report: Report) -> str:
    """Draw a report as one self-contained page, light and dark, for desk and phone."""
    row = fastest(report)
    body = [
        _top(report),
        _hero(report, row),
        NOTHING if row is None else _tiles(report, row),
        *(el("p", Markup(_WARNING), el("span", note), cls="note") for note in report.notes),
        comparison(report),
        artifacts(report),
        gates(report),
        candidates_section(report),
        exits_section(report),
        NOTHING if row is None else details.recall(report, row),
        details.training(report),
        details.time_spent(report),
        details.origin(report),
    ]
    foot = "Drawn from report.json in the same folder, which holds every number of this page."
    page = join(el("main", *body), el("footer", foot))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"{el('title', f'{report.title}: edgebert report')}\n<style>{STYLE}</style>\n"
        f"</head>\n<body>\n{page}\n</body>\n</html>\n"
    )


def fastest(report: Report) -> ArtifactRow | None:
    """Pick the artifact with the lowest measured latency, the smaller where none was timed."""

    def cost(row: ArtifactRow) -> tuple[float, int]:
        timed = row.latency_ms.get(SPEED_KEY)
        return (timed.p50 if timed else float("inf"), row.size_bytes or 0)

    return min(report.rows, key=cost, default=None)


def _top(report: Report) -> Markup:
    when = report.created[:16].replace("T", " ")
    brand = el("span", Markup(_MARK), "edgebert", cls="brand")
    return el("div", brand, el("span", when), cls="bar-top")


def _hero(report: Report, row: ArtifactRow | None) -> Markup:
    verdict = badge(_verdict(report), good=report.passed)
    words = el("div", verdict, el("h1", report.title), el("p", *_summary(report, row)))
    if row is None or not row.size_bytes or row.size_bytes * 1.25 > report.teacher.size_bytes:
        return el("div", words, cls="hero plain")
    sizes = [
        Mark(
            "Teacher",
            "teacher",
            report.teacher.size_bytes,
            show.megabytes(report.teacher.size_bytes),
        ),
        Mark(name_of(row), row.precision, row.size_bytes, show.megabytes(row.size_bytes)),
    ]
    keys = el("div", *(el("span", el("i", cls=m.kind), m.name) for m in sizes), cls="keys")
    return el("div", words, el("figure", squares(sizes), keys), cls="hero")


def _verdict(report: Report) -> str:
    if report.passed:
        return "All gates passed"
    names = ", ".join(name_of(row) for row in report.refused)
    return f"Refused by its gate: {names}" if names else "A gate refused an artifact"


def _summary(report: Report, row: ArtifactRow | None) -> list[str]:
    if row is None:
        return ["No artifact passed its gate, so there is nothing to run."]
    student, teacher = report.student, report.teacher
    made = f"distilled from {teacher.used}" if student.method else f"exported from {teacher.used}"
    return [
        f"A {report.task} model, ",
        el("b", student.name),
        f", {made}. It runs as {name_of(row)} in ",
        el("b", show.megabytes(row.size_bytes)),
        f" on {row.engine or row.backend}.",
    ]


def _tiles(report: Report, row: ArtifactRow) -> Markup:
    teacher, tiles = report.teacher, []
    kept, speedup = report.retention(row), report.speedup(row)
    if kept is not None:
        name = f"{show.metric_name(report.metric)} kept"
        ours = f"{show.score(row.score)} on {report.split}"
        tiles.append(_tile(name, f"{100 * kept:.1f}", "%", ours, _than(show.score(teacher.score))))
    smaller = teacher.size_bytes / row.size_bytes if row.size_bytes else 0.0
    if smaller >= 1.05:  # less isn't why anyone would take it
        ours, theirs = show.megabytes(row.size_bytes), _than(show.megabytes(teacher.size_bytes))
        tiles.append(_tile("Smaller", show.ratio(smaller), show.TIMES, ours, theirs))
    if speedup is not None:
        ours = f"{show.milliseconds(row.latency_ms[SPEED_KEY].p50)}, one text of 32 tokens"
        theirs = _than(show.milliseconds(teacher.latency_ms[SPEED_KEY].p50))
        tiles.append(_tile("Faster", show.ratio(speedup), show.TIMES, ours, theirs))
    if row.texts_per_s is not None:
        said = _than(show.count(teacher.texts_per_s)) if teacher.texts_per_s else ""
        tiles.append(_tile("Texts a second", show.count(row.texts_per_s), "", said))
    return el("div", *tiles, cls="tiles") if tiles else NOTHING


def _than(text: str) -> str:
    return f"teacher {text}"


def _tile(what: str, number: str, unit: str, *said: str) -> Markup:
    big = el("div", number, el("span", unit) if unit else NOTHING, cls="big")
    return el("div", el("div", what, cls="what"), big, *(el("small", s) for s in said), cls="tile")
