"""Prompts with several texts to choose from: from a table's cells to checked questions."""

from __future__ import annotations

import re
from typing import Any

from compress.data.cells import Table
from compress.data.columns import find_column, read_texts, text_fault
from compress.data.task_data import Split, make_split
from edgebert.errors import DataError

PROMPT_NAMES = ("prompt", "question", "sentence", "text")
CHOICE_NAMES = ("choices", "options", "endings")
RIGHT_NAMES = ("label", "answer")

_NUMBERED = re.compile(r"(choice|option|ending)_?(\d+)")


def choices_split(
    table: Table,
    *,
    name: str,
    prompt: str | None = None,
    choices: str | None = None,
    right: str | None = None,
    right_optional: bool = False,
) -> Split:
    """Read prompts, two or more choices for each, and which one is right.

    Args:
        table: A column of prompts; a column ``choices`` of lists, or columns like ``choice0`` or
            ``ending1``; and a column ``label`` with the number of the right choice, from 0, or with
            its text.
        name: Of the split.
        prompt: Column asked for, or None.
        choices: Column of lists asked for, or None.
        right: Column asked for, or None.
        right_optional: Whether a file without it is fine.

    Raises:
        DataError: A column is missing, or rows are bad: an empty text, fewer than two choices, or a
            label that is none of them. All are named by file and line.
    """
    prompt_column = find_column(table, prompt, PROMPT_NAMES, "--text-column") or ""
    prompts = read_texts(table, prompt_column)
    cells = _choices(table, choices)
    column = find_column(table, right, RIGHT_NAMES, "--label-column", optional=right_optional)
    for line, cell in zip(table.lines, cells, strict=True):
        fault = _choices_fault(cell)
        if fault is not None:
            table.bad.add(line, fault)
    labels: list[int] | None = None
    if column is not None:
        labels = []
        for line, cell, one in zip(table.lines, table.columns[column], cells, strict=True):
            try:
                labels.append(_right(cell, one if isinstance(one, list) else []))
            except ValueError as error:
                table.bad.add(line, str(error))
    table.bad.raise_if_any()
    return make_split(
        name, table.source, prompts, labels=labels, choices=[tuple(one) for one in cells]
    )


def _choices(table: Table, asked: str | None) -> list[Any]:
    """Give each row's list of choices; what is left empty at the end of a row is none."""
    column = find_column(table, asked, CHOICE_NAMES, "--text-pair-column", optional=asked is None)
    if column is not None:
        cells = table.columns[column]
        return [one["text"] if isinstance(one, dict) and "text" in one else one for one in cells]
    numbered: dict[str, dict[int, str]] = {}
    for header in table.columns:
        match = _NUMBERED.fullmatch(header)
        if match is not None:
            numbered.setdefault(match[1], {})[int(match[2])] = header
    if len(numbered) != 1:
        raise DataError(
            f"{table.source} has no column of choices; give a column 'choices' of lists, or "
            "choice0, choice1, … (or the column's name with --text-pair-column)."
        )
    headers = [header for _, header in sorted(next(iter(numbered.values())).items())]
    rows = zip(*(table.columns[header] for header in headers), strict=True)
    return [_without_empty_end(list(row)) for row in rows]


def _without_empty_end(cells: list[Any]) -> list[Any]:
    while cells and cells[-1] in (None, ""):
        cells.pop()
    return cells


def _choices_fault(cell: Any) -> str | None:
    if not isinstance(cell, list):
        return f"the choices are a {type(cell).__name__}, not a list"
    if len(cell) < 2:
        return f"{len(cell)} choices; two or more are needed"
    faults = (text_fault(one, f"choice {place}") for place, one in enumerate(cell))
    return next((fault for fault in faults if fault is not None), None)


def _right(cell: Any, choices: list[Any]) -> int:
    """Find the right choice by its number or its text."""
    meant = {place for place, choice in enumerate(choices) if choice == cell}
    if isinstance(cell, int) and not isinstance(cell, bool):
        meant = {cell}
    elif isinstance(cell, float) and cell.is_integer():
        meant = {int(cell)}  # a whole number that a table with gaps turned into a float
    elif isinstance(cell, str) and cell.strip().isdecimal():
        meant.add(int(cell))
    if len(meant) > 1:
        raise ValueError(f"the label {cell!r} could be any of the choices {sorted(meant)}")
    if not meant or not 0 <= min(meant) < len(choices):
        raise ValueError(
            f"the label is {cell!r:.60}, not a number from 0 to {len(choices) - 1} or the text of "
            "a choice"
        )
    return meant.pop()
