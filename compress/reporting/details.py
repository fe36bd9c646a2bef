"""The lower half of ``report.html``: recall by class, training, time, origin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from compress.reporting import format as show
from compress.reporting.markup import Markup, el
from compress.reporting.plots import loss_curve, score_curve
from compress.reporting.records import ArtifactRow, ClassRecord, PhaseRecord
from compress.reporting.sections import NOTHING, name_of, section

if TYPE_CHECKING:
    from compress.report import Report

MOST_CLASSES = 24  # a longer list isn't read; the worst classes are what matters
_MACHINE = {"cpu": "CPU", "os": "OS", "memory_gb": "Memory, GB"}


def recall(report: Report, row: ArtifactRow) -> Markup:
    """Set each class's recall beside the teacher's."""
    if not row.per_class:
        return NOTHING
    before = {item.label: item.recall for item in report.teacher.per_class}
    shown = row.per_class
    lead = f"{name_of(row)} on {report.split}, the teacher's recall in grey above it. "
    if len(shown) > MOST_CLASSES:
        shown = tuple(sorted(shown, key=lambda item: item.recall)[:MOST_CLASSES])
        lead += f"The {MOST_CLASSES} lowest of {len(row.per_class)} classes. "
    lead += "One score can hide a class that is never predicted."
    lines = [_class(item, before.get(item.label), row.precision) for item in shown]
    return section("Recall by class", lead, el("div", *lines, cls="card recall"))


def _class(item: ClassRecord, before: float | None, kind: str) -> Markup:
    pair = [(before, "teacher"), (item.recall, kind)]
    tracks = [
        el("div", el("i", cls=f"bar {name}", style=f"width:{100 * value:.1f}%"), cls="track")
        for value, name in pair
        if value is not None
    ]
    was = NOTHING if before is None else el("small", f"was {before:.3f}")
    gone = item.recall == 0 and bool(before)
    return el(
        "div",
        el("span", item.label, el("small", f"{show.count(item.support)} texts"), cls="label"),
        el("div", *tracks, cls="pair"),
        el("span", f"{item.recall:.3f}", was, cls="now"),
        cls="class vanished" if gone else "class",
    )


def training(report: Report) -> Markup:
    """Draw the curves of every phase."""
    phases = [phase for phase in report.phases if phase.steps]
    if not phases:
        return NOTHING
    lead = "Each loss term on its own scale, and the dev score where the head is trained."
    return section("Training", lead, *(_phase(phase, report.metric) for phase in phases))


def _phase(phase: PhaseRecord, metric: str) -> Markup:
    panels = []
    if phase.scores:
        panels.append(
            score_curve(
                f"{show.metric_name(phase.metric or metric)} on dev",
                phase.scores,
                best_step=phase.best_step,
                last_step=phase.steps[-1],
            )
        )
    for name, values in phase.terms.items():
        panels.append(loss_curve(f"Loss: {name.replace('_', ' ')}", phase.steps, values))
    note = el("small", phase.note) if phase.note else NOTHING
    title = el("h3", f"Phase {phase.name}")
    return el("div", title, note, el("div", *panels, cls="panels"), cls="phase")


def time_spent(report: Report) -> Markup:
    """Show where the wall time went, as parts of one bar."""
    total = sum(report.seconds.values())
    if total <= 0:
        return NOTHING
    parts, lines = [], []
    for index, (name, seconds) in enumerate(report.seconds.items()):
        shade = f"opacity:{max(0.25, 1 - 0.13 * index):.2f}"
        parts.append(el("i", style=f"width:{100 * seconds / total:.2f}%;{shade}", title=name))
        label = el("span", el("i", style=shade), name.replace("_", " ").capitalize(), cls="soft")
        lines.append(el("div", label, el("span", show.duration(seconds))))
    body = [el("div", *parts, cls="split"), el("div", *lines, cls="times")]
    return section("Time", f"{show.duration(total)} in all.", el("div", *body, cls="card"))


def origin(report: Report) -> Markup:
    """Say what the numbers were measured on and how to get them again."""
    cards = [
        el("div", el("h3", "Models"), _facts(_models(report)), cls="card"),
        el("div", el("h3", "Data"), _facts(_data(report)), cls="card"),
        el("div", el("h3", "Machine"), _facts(_plain(report.machine)), cls="card"),
    ]
    if report.versions:
        cards.append(el("div", el("h3", "Versions"), _facts(report.versions), cls="card"))
    body = [el("div", *cards, cls="grid two")]
    if report.command:
        again = el("div", el("h3", "Run it again"), el("pre", report.command), cls="card")
        body.append(el("div", again, style="margin-top:16px"))
    if report.lineage:
        steps = el("ol", *(_step(step) for step in report.lineage), cls="steps")
        card = el("div", el("h3", "Lineage, oldest step first"), steps, cls="card")
        body.append(el("div", card, style="margin-top:16px"))
    return section("Origin", "What these numbers were measured on.", *body)


def _models(report: Report) -> dict[str, str]:
    teacher, student = report.teacher, report.student
    used = (
        teacher.used
        if teacher.used == teacher.requested
        else (f"{teacher.used} (asked for: {teacher.requested})")
    )
    facts = {"Student": student.name, "Student size": _shape(student.params, student.architecture)}
    facts["Method"] = student.method
    facts["Start from"] = student.init
    facts["Teacher"] = used
    facts["Teacher size"] = _shape(teacher.params, teacher.architecture)
    return {name: text for name, text in facts.items() if text}


def _shape(params: int, architecture: dict[str, int]) -> str:
    shape = [f"{show.params(params)} parameters"]
    if "num_hidden_layers" in architecture:
        shape.append(f"{architecture['num_hidden_layers']} layers")
    if "hidden_size" in architecture:
        shape.append(f"{architecture['hidden_size']} wide")
    return ", ".join(shape)


def _data(report: Report) -> dict[str, str]:
    return {
        name.capitalize(): ", ".join(
            part
            for part in (
                f"{show.count(s.rows)} rows",
                f"{show.count(s.measured)} of them measured" if s.in_part else "",
                s.source,
                f"sha256\N{NO-BREAK SPACE}{s.sha256[:12]}",
            )
            if part
        )
        for name, s in report.data.items()
    }


def _plain(values: dict[str, Any]) -> dict[str, str]:  # whatever the machine told
    return {
        _MACHINE.get(name, name.replace("_", " ").capitalize()): ", ".join(map(str, v))
        if isinstance(v, (list, tuple))
        else str(v)
        for name, v in values.items()
    }


def _facts(facts: dict[str, str]) -> Markup:
    pairs = (part for name, text in facts.items() for part in (el("dt", name), el("dd", text)))
    return el("dl", *pairs, cls="facts")


def _step(step: dict[str, Any]) -> Markup:
    seconds = step.get("seconds")
    took = el("small", show.duration(seconds)) if isinstance(seconds, (int, float)) else NOTHING
    rest = json.dumps(step, indent=2, ensure_ascii=False, default=str)
    title = el("summary", str(step.get("step", "step")), took)
    return el("li", el("details", title, el("pre", rest)))
