"""``search.html``: what was found, drawn as score against size and against time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compress.reporting import format as show
from compress.reporting.markup import Markup, el, join
from compress.reporting.plots import ticks_of
from compress.reporting.sections import NOTHING, section
from compress.reporting.style import STYLE
from compress.searching.budget import Cost
from compress.searching.records import SearchResult, Tried
from compress.searching.table import HEADS, finalist_cells, goal_words

_WIDTH, _HEIGHT = 460.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 14.0, 14.0, 40.0
FAR = 2.5  # times the dearest dot: a limit beyond would press all dots together
_OWN = """
.scatter text{font-size:11px;fill:var(--soft)}
.scatter .short{fill:none;stroke:var(--teacher);stroke-width:1.4}
.scatter .fp32{fill:var(--fp32)}.scatter .int8{fill:var(--int8)}.scatter .int4{fill:var(--int4)}
.scatter .chosen{stroke:var(--ink);stroke-width:2.2}
.scatter .front{fill:none;stroke:var(--int8);stroke-width:1.4;opacity:.55}
.scatter .limit{stroke:var(--bad);stroke-width:1.2;stroke-dasharray:4 4}
.scatter .whole{stroke:var(--teacher);stroke-width:1.2;stroke-dasharray:2 4}
i.short{border:1.5px solid var(--teacher);border-radius:50%}
"""


@dataclass(frozen=True)
class _Dot:
    x: float
    y: float
    kind: str
    said: str


def draw(result: SearchResult, *, title: str) -> str:
    """Draw a search as one self-contained page."""
    chosen = result.chosen
    words = (
        f"{goal_words(result.budget)}: {chosen.student} of {chosen.vocab_size:,} tokens as "
        f"{show.backend_name(result.backend)} {chosen.precision.upper()}, "
        f"{show.percent(chosen.kept)} of the teacher's {show.metric_name(result.metric)} on dev, "
        f"{show.megabytes(chosen.cost.size_bytes)}, {show.milliseconds(chosen.cost.latency_ms)}."
    )
    body = [
        el("div", el("h1", title), el("p", words), cls="hero plain"),
        *(el("p", el("span", note), cls="note") for note in result.notes),
        _plots(result),
        _finalists(result),
        _tried(result),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"{el('title', f'{title}: edgebert search')}\n<style>{STYLE}{_OWN}</style>\n"
        f"</head>\n<body>\n{el('main', *body)}\n"
        f"{el('footer', 'Drawn from search.json in the same folder.')}\n</body>\n</html>\n"
    )


def _plots(result: SearchResult) -> Markup:
    budget = result.budget
    most_mb = None if budget.max_size_bytes is None else budget.max_size_bytes / 1e6
    panels = [
        _scatter(result, lambda cost: cost.size_bytes / 1e6, most_mb, "MB on disk"),
        _scatter(
            result, lambda cost: cost.latency_ms, budget.max_latency_ms, "ms, one text of 32 tokens"
        ),
    ]
    keys = [("short", "after a short training")]
    precisions = dict.fromkeys(one.precision for one in result.finalists)
    keys += [(precision, precision.upper()) for precision in precisions]
    legend = el("div", *(el("span", el("i", cls=k), text) for k, text in keys), cls="keys")
    lead = (
        "Part of the teacher's dev score that is kept. The line joins what no other beats in this "
        "plot; the ringed dot is the chosen one; red dashes are the budget's limits."
    )
    return section("What there is to have", lead, el("div", *panels, cls="grid two"), legend)


def _scatter(
    result: SearchResult, of: Callable[[Cost], float], limit: float | None, label: str
) -> Markup:
    dots = [
        _Dot(of(one.cost), one.kept, "short", f"trial {one.number}, {one.shape}")
        for one in result.tried
        if one.cost is not None and one.kept is not None
    ]
    finals = []
    for one in result.finalists:
        kind = one.precision + (" chosen" if one.name == result.chosen.name else "")
        finals.append(_Dot(of(one.cost), one.kept, kind, f"trial {one.name}, {one.student}"))
    axes = _Axes([*dots, *finals], limit=limit, least=1 - (result.budget.max_drop or 0.0))
    front = " ".join(f"{axes.x(dot.x):.1f},{axes.y(dot.y):.1f}" for dot in _front(finals))
    shapes = [axes.draw(label, result.budget.max_drop)]
    shapes.append(el("polyline", points=front, cls="front"))
    for dot in (*dots, *finals):
        said = f"{dot.said}: {show.percent(dot.y)} kept, {show.digits(dot.x)} {label.split(',')[0]}"
        radius, name = (3.5 if dot in dots else 5.5), el("title", said)
        shapes.append(
            el("circle", name, cx=axes.x(dot.x), cy=axes.y(dot.y), r=radius, cls=dot.kind)
        )
    drawing = el(
        "svg",
        *shapes,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=f"Kept score against {label}",
    )
    return el("figure", drawing, cls="card scatter")


def _front(dots: Sequence[_Dot]) -> list[_Dot]:
    """Give the dots that none to their left is above, from left to right."""
    best, kept = -math.inf, []
    for dot in sorted(dots, key=lambda one: (one.x, -one.y)):
        if dot.y > best:
            kept.append(dot)
            best = dot.y
    return kept


class _Axes:
    """Cost to the right on a scale of powers, the kept part upwards."""

    def __init__(self, dots: Sequence[_Dot], *, limit: float | None, least: float) -> None:
        xs = [dot.x for dot in dots]
        self._limit = limit if limit is not None and limit <= FAR * max(xs) else None
        xs += [self._limit] if self._limit is not None else []
        self._low, self._high = math.log(min(xs) * 0.85), math.log(max(xs) * 1.18)
        ys = [*(dot.y for dot in dots), least, 1.0]
        room = 0.06 * (max(ys) - min(ys)) or 0.01
        self._bottom, self._top = min(ys) - room, max(ys) + room

    def x(self, value: float) -> float:
        part = (math.log(value) - self._low) / (self._high - self._low)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * part

    def y(self, value: float) -> float:
        part = (value - self._bottom) / (self._top - self._bottom)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part

    def draw(self, label: str, max_drop: float | None) -> Markup:
        """Draw the grid, the numbers, the teacher's line and the limits."""
        parts = []
        for tick in ticks_of(self._bottom, self._top, wanted=5):
            y = self.y(tick)
            parts.append(el("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, cls="grid"))
            text = f"{100 * tick:g} %"
            parts.append(el("text", text, x=_LEFT - 6, y=y + 3.5, text_anchor="end"))
        for tick in self._powers():
            x = self.x(tick)
            parts.append(el("text", f"{tick:g}", x=x, y=_HEIGHT - 22, text_anchor="middle"))
        parts.append(el("text", label, x=_WIDTH - _RIGHT, y=_HEIGHT - 6, text_anchor="end"))
        across = {"x1": _LEFT, "x2": _WIDTH - _RIGHT}
        parts.append(el("line", **across, y1=self.y(1.0), y2=self.y(1.0), cls="whole"))
        if max_drop is not None:
            least = self.y(1 - max_drop)
            parts.append(el("line", **across, y1=least, y2=least, cls="limit"))
        if self._limit is not None:
            x = self.x(self._limit)
            parts.append(el("line", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM, cls="limit"))
        return join(*parts)

    def _powers(self) -> list[float]:
        low, high = math.exp(self._low), math.exp(self._high)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factors in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
            ticks = [factor * 10.0**power for power in powers for factor in factors]
            shown = [tick for tick in ticks if low <= tick <= high]
            if len(shown) >= 3:
                break
        return shown


def _finalists(result: SearchResult) -> Markup:
    lead = "Trained to the end, gated, and measured on the engine by turns."
    lines = [finalist_cells(result, one) for one in result.finalists]
    return section("Finalists", lead, _table(HEADS, lines))


def _tried(result: SearchResult) -> Markup:
    if not result.tried:
        return NOTHING
    heads = ("trial", "shape", "size", "ms@32", "kept", "what became of it")
    lead = (
        f"{result.counted('trained')} shapes of {result.shapes:,} had a short training of "
        f"{result.short_steps} steps, {result.counted('stopped')} were stopped on the way, "
        f"{result.counted('dropped')} were dropped before."
    )
    lines = [_tried_cells(one) for one in result.tried if one.student]
    return section("What was tried", lead, _table(heads, lines))


def _tried_cells(one: Tried) -> list[str]:
    return [
        str(one.number),
        one.shape,
        show.megabytes(one.cost.size_bytes) if one.cost else show.MISSING,
        show.digits(one.cost.latency_ms) if one.cost else show.MISSING,
        show.percent(one.kept),
        f"{one.outcome}: {one.reason}" if one.reason else one.outcome,
    ]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Markup:
    head = el("thead", el("tr", *(el("th", text, scope="col") for text in heads)))
    rows = [
        el("tr", *(el("td", cell, data_label=name) for name, cell in zip(heads, line, strict=True)))
        for line in lines
    ]
    return el("div", el("table", head, el("tbody", *rows)), cls="card wide")
