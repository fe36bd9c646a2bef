"""The plots of ``report.html``: bars and dots in HTML, curves and squares in SVG.

Kinds (``teacher``, ``fp32``, ``int8``, ``int4``) are colours of `compress.reporting.style`; every
mark has its number beside it, so nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compress.reporting.format import count, score, small
from compress.reporting.markup import Markup, el, join

_WIDTH, _HEIGHT = 300.0, 150.0  # of a curve, in SVG units; drawn at about 1 pixel each
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 10.0, 10.0, 24.0


@dataclass(frozen=True)
class Mark:
    """One bar or dot.

    Attributes:
        name: Of what was measured.
        kind: ``teacher``, ``fp32``, ``int8`` or ``int4``.
        value: Its length or place.
        text: The value for people.
        interval: Ends of a dot's whisker.
    """

    name: str
    kind: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


def bars(marks: Sequence[Mark]) -> Markup:
    """Draw bars from zero; the longest fills the track."""
    longest = max((mark.value for mark in marks), default=0.0) or 1.0
    return el(
        "div",
        *(
            _row(mark, el("i", cls=f"bar {mark.kind}", style=_place(0, mark.value / longest)))
            for mark in marks
        ),
        cls="marks",
    )


def dots(marks: Sequence[Mark], *, reference: float | None) -> Markup:
    """Draw dots with whiskers on an axis that shows where they differ; it doesn't begin at 0.

    Args:
        marks: What to draw.
        reference: Where a line stands through all rows, or None.
    """
    ends = [end for mark in marks for end in (mark.value, *(mark.interval or ()))]
    low, high = _padded(min(ends), max(ends))

    def at(value: float) -> float:
        return (value - low) / (high - low)

    rows = []
    for mark in marks:
        inside = [el("i", cls=f"dot {mark.kind}", style=f"left:{100 * at(mark.value):.2f}%")]
        if mark.interval:
            start, end = map(at, mark.interval)
            inside.insert(0, el("i", cls=f"whisker {mark.kind}", style=_place(start, end - start)))
        if reference is not None:
            inside.insert(0, el("i", cls="reference", style=f"left:{100 * at(reference):.2f}%"))
        rows.append(_row(mark, *inside, cls="track open"))
    ticks = [
        el("span", small(tick), style=f"left:{100 * at(tick):.2f}%")
        for tick in ticks_of(low, high, wanted=4)
    ]
    return el("div", *rows, el("div", *ticks, cls="axis"), cls="marks")


def _row(mark: Mark, *inside: Markup, cls: str = "track") -> Markup:
    return el(
        "div",
        el("span", mark.name, cls="name"),
        el("span", mark.text, cls="value"),
        el("div", *inside, cls=cls),
        cls="mark",
    )


def _place(start: float, width: float) -> str:
    return f"left:{100 * start:.2f}%;width:{100 * max(width, 0.004):.2f}%"


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.12 * (high - low) or 0.01 * abs(high) or 0.01
    return low - room, high + room


def ticks_of(low: float, high: float, *, wanted: int = 3) -> list[float]:
    """Choose round numbers between two ends: multiples of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / wanted
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def loss_curve(name: str, steps: Sequence[int], values: Sequence[float]) -> Markup:
    """Draw one loss term over the steps, from zero up."""
    top = max(values, default=0.0) * 1.05 or 1.0
    plot = _Plot(last_step=max(steps, default=1), low=min(0.0, min(values, default=0.0)), high=top)
    line = el("polyline", points=plot.points(steps, values), cls="line")
    return _panel(name, small(values[-1]) if values else "-", "at the end", plot, line)


def score_curve(
    name: str, scores: Sequence[tuple[int, float]], *, best_step: int | None, last_step: int
) -> Markup:
    """Draw the dev metric at each measurement and ring the one whose weights were kept."""
    steps, values = [step for step, _ in scores], [value for _, value in scores]
    low, high = _padded(min(values), max(values))
    plot = _Plot(last_step=max(last_step, *steps), low=low, high=high)
    shapes = [el("polyline", points=plot.points(steps, values), cls="line score")]
    for step, value in scores:
        shapes.append(
            el(
                "circle",
                el("title", f"step {count(step)}: {score(value)}"),
                cx=plot.x(step),
                cy=plot.y(value),
                r=5 if step == best_step else 3,
                cls="point best" if step == best_step else "point",
            )
        )
    best = dict(scores).get(best_step) if best_step is not None else None
    shown, said = (values[-1], "at the end") if best is None else (best, f"kept, step {best_step}")
    return _panel(name, score(shown), said, plot, *shapes)


@dataclass(frozen=True)
class _Plot:
    last_step: int
    low: float
    high: float

    def x(self, step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / self.last_step

    def y(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part

    def points(self, steps: Sequence[int], values: Sequence[float]) -> str:
        pairs = zip(steps, values, strict=True)
        return " ".join(f"{self.x(step):.1f},{self.y(value):.1f}" for step, value in pairs)

    def axes(self) -> Markup:
        parts = []
        for tick in ticks_of(self.low, self.high):
            y = self.y(tick)
            parts.append(el("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, cls="grid"))
            parts.append(el("text", small(tick), x=_LEFT - 6, y=y + 3.5, text_anchor="end"))
        for step, anchor in ((0, "start"), (self.last_step, "end")):
            label = "0" if step == 0 else f"{count(step)} steps"
            parts.append(el("text", label, x=self.x(step), y=_HEIGHT - 6, text_anchor=anchor))
        return join(*parts)


def _panel(name: str, value: str, said: str, plot: _Plot, *shapes: Markup) -> Markup:
    label = f"{name} over {count(plot.last_step)} steps, {value} {said}"
    drawing = el(
        "svg",
        plot.axes(),
        *shapes,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=label,
    )
    head = el("figcaption", el("span", name), el("b", value), el("small", said))
    return el("figure", head, drawing, cls="panel")


def squares(marks: Sequence[Mark]) -> Markup:
    """Draw one square in another, each with an area in proportion to its value.

    Args:
        marks: Largest first; the side of a mark is the root of its share of the first.
    """
    side, largest = 200.0, max(marks[0].value, 1.0)
    shapes = []
    for index, mark in enumerate(marks):
        inset = 7.0 * index  # keeps the outline of the larger one whole
        edge = side * math.sqrt(min(1.0, mark.value / largest))
        shapes.append(
            el(
                "rect",
                el("title", f"{mark.name}: {mark.text}"),
                x=2 + inset,
                y=2 + side - edge - inset,
                width=edge,
                height=edge,
                rx=min(10.0, edge / 6),
                cls=f"square {mark.kind}",
            )
        )
        shapes.append(
            el(
                "text",
                mark.text,
                x=12 + inset,
                y=2 + side - edge - inset + 20,
                cls=f"on {mark.kind}",
            )
        )
    label = "Areas in proportion to size: " + ", ".join(f"{m.name} {m.text}" for m in marks)
    return el("svg", *shapes, viewBox="0 0 204 204", role="img", aria_label=label, cls="squares")
