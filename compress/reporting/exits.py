"""A model in segments, row by row: what leaving early comes to, and each number of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compress.reporting import format as show
from compress.reporting.exit_records import ExitRecord
from compress.reporting.markup import Markup, el
from compress.reporting.sections import NOTHING, section

if TYPE_CHECKING:
    from compress.report import Report


def exit_heads(report: Report) -> list[str]:
    """Head the columns of `exit_rows`."""
    return ["in segments", "texts leave", "layers", "dev", report.split, "size", "gate"]


def exit_rows(record: ExitRecord) -> list[list[str]]:
    """Write a record as lines: leaving early first, then after each layer.

    Returns:
        One cell for each of `exit_heads`; ``layers`` is the mean on the report's split.
    """
    gate = "passed" if record.gate.passed else "REFUSED"
    if record.threshold is None or record.layers is None:
        return [[record.name, *[show.MISSING] * 5, gate]]
    scores = show.score(record.dev_score), show.score(record.score)
    when = f"early, entropy < {record.threshold:.3g}" if record.threshold else "never early"
    first = [record.name, when, f"{record.layers:.2f}", *scores]
    return [
        [*first, show.megabytes(record.size_bytes), gate],
        *(
            [
                "",
                f"after layer {one.layers}",
                str(one.layers),
                show.score(one.dev_score),
                show.score(one.score),
                "",
                "",
            ]
            for one in record.depths
        ),
    ]


def exit_notes(report: Report) -> list[str]:
    """Say what the rows mean, and why some were refused; nothing for a model without exits."""
    if not report.exits:
        return []
    budget = show.percent(report.exits[0].budget)
    return [
        f"texts leave at the first layer below an entropy, calibrated on dev to lose {budget} of "
        f"{report.metric} at most; layers: mean on {report.split}",
        *(
            f"refused {one.name} in segments: {reason}"
            for one in report.exits
            for reason in one.gate.reasons
        ),
    ]


def exits_section(report: Report) -> Markup:
    """Show the table on the page; nothing for a model without exits."""
    if not report.exits:
        return NOTHING
    heads = exit_heads(report)
    head = el("thead", el("tr", *(el("th", text.capitalize(), scope="col") for text in heads)))
    lines = [_line(cells, heads) for one in report.exits for cells in exit_rows(one)]
    table = el("div", el("table", head, el("tbody", *lines)), cls="card wide")
    lead = f"{'. '.join(note[0].upper() + note[1:] for note in exit_notes(report))}."
    return section("Early exit", lead, table)


def _line(cells: list[str], heads: list[str]) -> Markup:
    first, *rest = cells
    shown = [el("td", cell, data_label=head) for head, cell in zip(heads[1:], rest, strict=True)]
    return el("tr", el("th", first, scope="row"), *shown)
