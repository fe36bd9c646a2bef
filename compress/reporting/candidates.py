"""The ways to INT8 and INT4 that were tried, side by side: on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compress.reporting import format as show
from compress.reporting.markup import Markup, el
from compress.reporting.records import CandidateRecord
from compress.reporting.sections import NOTHING, section
from compress.reporting.table import aligned

if TYPE_CHECKING:
    from compress.report import Report

_HEADS = ("engine", "recipe", "precision", "size", "dev", "error", "ms@32", "matmuls", "verdict")


def format_candidates(candidates: Sequence[CandidateRecord]) -> str:
    """Write every recipe that was tried as a line of a table, then why some were refused.

    Returns:
        Lines of ASCII, without a line end at the end.
    """
    table = aligned([list(_HEADS), *map(_cells, candidates)])
    rule = "-" * max(map(len, table))
    notes = [
        f"refused {one.backend} {one.recipe}: {' '.join(one.reasons)}"
        for one in candidates
        if not one.passed
    ]
    shown = ["", rule, table[0], rule, *table[1:], rule, *notes]
    return "\n".join(shown).encode("ascii", "replace").decode("ascii")


def candidates_section(report: Report) -> Markup:
    """Show every recipe that was tried; nothing where each artifact had but one."""
    found = report.candidates
    if len(found) <= len({(one.backend, one.precision) for one in found}):
        return NOTHING
    head = el("thead", el("tr", *(el("th", text.capitalize(), scope="col") for text in _HEADS)))
    lines = [_line(one) for one in found]
    table = el("div", el("table", head, el("tbody", *lines)), cls="card wide")
    lead = "Of the recipes that passed their gate the fastest on one text of 32 tokens is in the "
    lead += "bundle; of those within 5 % of it, the one nearest to FP32."
    fours = any(one.precision == "int4" for one in found)
    return section("Ways to INT8 and INT4" if fours else "Ways to INT8", lead, table)


def _line(one: CandidateRecord) -> Markup:
    first, *rest = _cells(one)
    said = el("small", " ".join(one.reasons)) if one.reasons else NOTHING
    cells = [el("td", cell, data_label=head) for head, cell in zip(_HEADS[1:], rest, strict=True)]
    return el("tr", el("th", show.backend_name(first), said, scope="row"), *cells)


def _cells(one: CandidateRecord) -> list[str]:
    matmuls = show.MISSING if one.matmuls is None else "/".join(map(str, one.matmuls))
    return [
        one.backend,
        one.recipe,
        one.precision,
        show.megabytes(one.size_bytes),
        show.score(one.dev_score),
        show.MISSING if one.error is None else f"{one.error:.1e}",
        show.MISSING if one.latency_ms is None else show.digits(one.latency_ms),
        matmuls,
        _verdict(one),
    ]


def _verdict(one: CandidateRecord) -> str:
    word = "CHOSEN" if one.chosen else "passed" if one.passed else "REFUSED"
    kept = {"FP32": one.kept_fp32, "INT8": one.kept_int8}
    return ", ".join(
        [word, *(f"{name}: {', '.join(parts)}" for name, parts in kept.items() if parts)]
    )
