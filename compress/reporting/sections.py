"""The sections of ``report.html``, each made from a report or empty where it has nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compress.reporting import format as show
from compress.reporting.markup import Markup, el
from compress.reporting.plots import Mark, bars, dots
from compress.reporting.records import ArtifactRow, Latency, Parity

if TYPE_CHECKING:
    from compress.report import Report

NOTHING = Markup("")
_SAME = el("span", "reference", cls="same")
_TICK = '<path d="M3.5 8.5l3 3 6-7" fill="none" stroke="currentColor" stroke-width="2"/>'
_CROSS = '<path d="M4.5 4.5l7 7m0-7l-7 7" fill="none" stroke="currentColor" stroke-width="2"/>'


def section(title: str, lead: str, *body: Markup) -> Markup:
    """Put a heading and a sentence over some content."""
    return el("section", el("h2", title), el("p", lead, cls="lead"), *body)


def badge(text: str, *, good: bool) -> Markup:
    """Say passed or refused, with a sign for those who don't see the colour."""
    sign = el("svg", Markup(_TICK if good else _CROSS), viewBox="0 0 16 16", aria_hidden="true")
    return el("span", sign, text, cls=f"badge {'good' if good else 'bad'}")


def name_of(row: ArtifactRow) -> str:
    """Name an artifact for people, like ``ONNX INT8``."""
    return f"{show.backend_name(row.backend)} {row.precision.upper()}"


def _engine_of(row: ArtifactRow) -> str:
    engine = row.engine or row.backend
    return f"{engine}, {row.recipe}" if row.recipe else engine


def comparison(report: Report) -> Markup:
    """Compare size, latency and score of the teacher and each artifact."""
    teacher = report.teacher
    sizes = [
        Mark("Teacher FP32", "teacher", teacher.size_bytes, show.megabytes(teacher.size_bytes))
    ]
    sizes += [
        Mark(name_of(r), r.precision, r.size_bytes, show.megabytes(r.size_bytes))
        for r in report.rows
        if r.size_bytes is not None
    ]
    cards = [
        _card("Size on disk", "All files of an artifact; the teacher's FP32 weights", bars(sizes))
    ]
    for key in _latency_keys(report):
        timed = [("Teacher FP32", "teacher", teacher.latency_ms.get(key))]
        timed += [(name_of(r), r.precision, r.latency_ms.get(key)) for r in report.rows]
        marks = [Mark(n, k, t.p50, show.milliseconds(t.p50)) for n, k, t in timed if t]
        if marks:
            cards.append(_card("Latency", f"Median, {show.latency_name(key)}", bars(marks)))
    scored = [("Teacher FP32", "teacher", teacher.score, teacher.interval)]
    scored += [(name_of(r), r.precision, r.score, r.interval) for r in report.rows]
    marks = [Mark(n, k, s, show.score(s), i) for n, k, s, i in scored if s is not None]
    if marks:
        hint = f"On {report.split}, with 95 % intervals; the axis doesn't begin at 0"
        plot = dots(marks, reference=teacher.score)
        cards.append(_card(show.metric_name(report.metric), hint, plot))
    threads = report.machine.get("threads")
    lead = "Each artifact ran on its own engine, the teacher in PyTorch FP32"
    lead += f", all with {threads} threads." if threads else ", at equal threads."
    return section("Against its teacher", lead, el("div", *cards, cls="grid four"))


def _card(title: str, hint: str, plot: Markup) -> Markup:
    return el("div", el("h3", title), el("small", hint), plot, cls="card")


def _latency_keys(report: Report) -> list[str]:
    timed = [report.teacher.latency_ms]
    timed += [row.latency_ms for row in (*report.rows, *report.refused)]
    return list(dict.fromkeys(key for latencies in timed for key in latencies))


def artifacts(report: Report) -> Markup:
    """Show every number of the teacher and of each artifact in one table."""
    keys = _latency_keys(report)
    heads = ["Model", "Size", f"{show.metric_name(report.metric)}, {report.split}", "Kept"]
    heads += [show.latency_name(key) for key in keys]
    heads += ["Texts a second", "Faster", "Difference"]
    teacher = report.teacher
    spans = [teacher.latency_ms.get(key) for key in keys]
    lines = [
        _line(
            heads,
            _model("Teacher FP32", "teacher", teacher.engine or teacher.used),
            [
                _cell(show.megabytes(teacher.size_bytes)),
                _cell(show.score(teacher.score), show.interval(teacher.interval)),
                _SAME,
                *map(_time, spans),
                _cell(show.count(teacher.texts_per_s)),
                _SAME,
                _SAME,
            ],
        )
    ]
    for row in (*report.rows, *report.refused):
        lines.append(_artifact_line(report, row, heads, keys))
    head = el("thead", el("tr", *(el("th", text, scope="col") for text in heads)))
    table = el("div", el("table", head, el("tbody", *lines)), cls="card wide")
    lead = "Kept is the score as a part of the teacher's. Faster compares medians of one text of "
    lead += "32 tokens. The difference is to the PyTorch FP32 outputs."
    return section("All artifacts", lead, table)


def _artifact_line(report: Report, row: ArtifactRow, heads: list[str], keys: list[str]) -> Markup:
    spans = [row.latency_ms.get(key) for key in keys]
    speedup = report.speedup(row)
    cells = [
        _cell(show.megabytes(row.size_bytes)),
        _cell(show.score(row.score), show.interval(row.interval)),
        _cell(show.percent(report.retention(row))),
        *map(_time, spans),
        _cell(show.count(row.texts_per_s)),
        _cell(show.ratio(speedup) + show.TIMES if speedup else show.MISSING),
        _difference(row.parity),
    ]
    return _line(
        heads,
        _model(name_of(row), row.precision, _engine_of(row), refused=not row.gate.passed),
        cells,
    )


def _line(heads: list[str], model: Markup, cells: list[Markup]) -> Markup:
    named = (el("td", cell, data_label=head) for head, cell in zip(heads[1:], cells, strict=True))
    return el("tr", model, *named)


def _model(name: str, kind: str, detail: str, *, refused: bool = False) -> Markup:
    said = el("small", "Refused by its gate", cls="bad") if refused else NOTHING
    return el("th", el("i", cls=kind), name, el("small", detail, cls="soft"), said, scope="row")


def _cell(text: str, detail: str = show.MISSING) -> Markup:
    small = el("small", detail) if detail != show.MISSING else NOTHING
    return el("span", text, small)


def _difference(parity: Parity | None) -> Markup:
    if parity is None:
        return _cell(show.MISSING)
    return _cell(show.small(parity.max_abs), f"cosine ≥ {show.rounded_down(parity.cosine_min)}")


def _time(latency: Latency | None) -> Markup:
    if latency is None:
        return _cell(show.MISSING)
    return _cell(show.milliseconds(latency.p50), f"p95 {show.milliseconds(latency.p95)}")


def gates(report: Report) -> Markup:
    """Show each artifact's limits beside what was measured."""
    cards = []
    for row in (*report.refused, *report.rows):
        gate = row.gate
        top = el(
            "div", el("b", name_of(row)), badge(_verdict(gate.passed), good=gate.passed), cls="top"
        )
        limits = [
            el(
                "div",
                el("span", show.limit_name(name)),
                el("b", show.small(gate.numbers.get(name))),
                el("small", f"allowed {'at least' if show.at_least(name) else 'up to'}"),
                el("small", show.small(limit)),
                cls="limit",
            )
            for name, limit in gate.limits.items()
        ]
        reasons = [el("p", reason, cls="reason") for reason in gate.reasons]
        if gate.kept_fp32:
            reasons.append(el("small", f"Kept in FP32: {', '.join(gate.kept_fp32)}"))
        if gate.kept_int8:
            reasons.append(el("small", f"Kept in INT8: {', '.join(gate.kept_int8)}"))
        cards.append(el("div", top, *limits, *reasons, cls="card"))
    lead = "An artifact is in the bundle only if it met these limits on the engine that runs it, "
    lead += f"measured on {report.rows[0].gate.split if report.rows else 'dev'}."
    return section("Gates", lead, el("div", *cards, cls="grid gates"))


def _verdict(passed: bool) -> str:
    return "Passed" if passed else "Refused"
