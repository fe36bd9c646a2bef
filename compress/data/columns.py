"""From a table's cells to checked texts and labels: which columns, and which rows are bad."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from compress.data.cells import BadRows, Table
from edgebert.errors import DataError

Answers: TypeAlias = tuple[tuple[str, int], ...]  # each with where it starts in the context
Labels: TypeAlias = list[str] | list[tuple[str, ...]] | list[float] | list[int] | list[Answers]
LabelKind = Literal["class", "classes", "score"]

TEXT_NAMES = ("sentence", "text", "text_a")
PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("text", "text_pair"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
)
LABEL_NAMES = {"class": ("label",), "classes": ("label", "labels"), "score": ("label", "score")}


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are read; None where there is none."""

    text: str
    text_pair: str | None
    label: str | None


@dataclass
class Rows:
    """The checked rows of one file.

    Attributes:
        texts: As in the file, never empty.
        text_pairs: Second texts, or None.
        labels: One a row by the kind asked for: a name, a tuple of names, or a number; or None.
        lines: Line of each row.
        bad: The file's bad rows so far.
    """

    texts: list[str]
    text_pairs: list[str] | None
    labels: Labels | None
    lines: list[int]
    bad: BadRows

    def refuse_unknown_labels(self, known: Collection[str]) -> None:
        """Name every row whose label was never seen in train."""
        if self.labels is None:
            return
        for line, label in zip(self.lines, self.labels, strict=True):
            unknown = set(label if isinstance(label, tuple) else [str(label)]).difference(known)
            if unknown:
                names = ", ".join(repr(name) for name in sorted(unknown))
                self.bad.add(line, f"label {names} is not in the train data")
        self.bad.raise_if_any()


def choose_columns(
    table: Table,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    kind: LabelKind | None = "class",
    label_optional: bool = False,
) -> Columns:
    """Pick the columns to read: those asked for by name or number, else by their usual names.

    Args:
        table: The file.
        text: Column asked for, or None.
        text_pair: Column asked for, or None.
        label: Column asked for, or None.
        kind: What the labels are; None reads none.
        label_optional: Whether a file without the label column is fine.

    Raises:
        DataError: A column is missing, or more than one could be meant.
    """
    if table.plain:
        if kind is not None and not label_optional:
            raise DataError(f"{table.source} is plain text without labels; give a TSV or JSONL.")
        return Columns("text", None, None)
    found_text, found_pair = _text_columns(table, text, text_pair)
    if kind is None:
        return Columns(found_text, found_pair, None)
    names = [label] if label else [x for x in LABEL_NAMES[kind] if x in table.columns]
    if len(names) > 1:
        raise DataError(f"{table.source} has {_listed(names)}; say which with --label-column.")
    if names and names[0] in table.columns:
        return Columns(found_text, found_pair, names[0])
    if label_optional:
        return Columns(found_text, found_pair, None)
    raise _missing(table, [label] if label else LABEL_NAMES[kind], "--label-column")


def find_column(
    table: Table, asked: str | None, names: Collection[str], flag: str, *, optional: bool = False
) -> str | None:
    """Pick one column: the one asked for, else the only one of its usual names.

    Args:
        table: The file.
        asked: By the user, or None.
        names: The usual ones.
        flag: What the user gives to ask for one.
        optional: Whether a file without it is fine.

    Raises:
        DataError: It is missing, or more than one could be meant.
    """
    found = [name for name in ([asked] if asked else names) if name in table.columns]
    if len(found) > 1:
        raise DataError(f"{table.source} has {_listed(found)}; say which with {flag}.")
    if not found and not optional:
        raise _missing(table, [asked] if asked else names, flag)
    return found[0] if found else None


def _text_columns(table: Table, text: str | None, text_pair: str | None) -> tuple[str, str | None]:
    for name, flag in ((text, "--text-column"), (text_pair, "--text-pair-column")):
        if name is not None and name not in table.columns:
            raise _missing(table, [name], flag)
    if text is not None:
        return text, text_pair
    singles = [name for name in TEXT_NAMES if name in table.columns]
    pairs = [pair for pair in PAIR_NAMES if set(pair) <= table.columns.keys()]
    if text_pair is None and len(pairs) == 1 and set(singles) <= set(pairs[0]):
        return pairs[0]
    if text_pair is not None:
        singles = [pair[0] for pair in pairs if pair[1] == text_pair] or singles
    if len(singles) == 1 and (text_pair is not None or not pairs):
        return singles[0], text_pair
    candidates = list(dict.fromkeys([*singles, *(name for pair in pairs for name in pair)]))
    if candidates:
        raise DataError(
            f"{table.source} has columns {_listed(candidates)}, any of which could be the text; "
            "say which with --text-column (and --text-pair-column)."
        )
    raise _missing(table, ["sentence", "text"], "--text-column")


def _missing(table: Table, names: Collection[str], flag: str) -> DataError:
    wanted = " or ".join(repr(name) for name in names)
    if not table.has_header:
        return DataError(
            f"{table.source} is read without a header, so its columns are the numbers 0 to "
            f"{len(table.columns) - 1} and {wanted} is not there; give {flag} as a number."
        )
    return DataError(
        f"{table.source} has no column {wanted}; its columns are {_listed(table.columns)}. "
        f"Give {flag} NAME, or, for a file without header, all columns as numbers from 0."
    )


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in list(names)[:12])
    return shown + (", …" if len(names) > 12 else "")


def read_rows(table: Table, columns: Columns, *, kind: LabelKind | None) -> Rows:
    """Check every cell of the chosen columns.

    Raises:
        DataError: Rows are bad: unreadable, an empty text, an empty label, or, for scores, no
            number. All are named by file and line.
    """
    texts = read_texts(table, columns.text)
    pairs = read_texts(table, columns.text_pair) if columns.text_pair is not None else None
    labels: list[Any] | None = None
    if kind is not None and columns.label is not None:
        read = {"class": _class_label, "classes": _class_labels, "score": _score}[kind]
        labels = []
        for line, cell in zip(table.lines, table.columns[columns.label], strict=True):
            try:
                labels.append(read(cell))
            except ValueError as error:
                table.bad.add(line, str(error))
    table.bad.raise_if_any()
    return Rows(texts, pairs, labels, table.lines, table.bad)


def read_texts(table: Table, column: str) -> list[str]:
    """Give a column's texts and note those that are none as bad rows."""
    cells = table.columns[column]
    for line, cell in zip(table.lines, cells, strict=True):
        fault = text_fault(cell, f"column {column!r}")
        if fault is not None:
            table.bad.add(line, fault)
    return cells


def text_fault(cell: object, where: str) -> str | None:
    """Say what is wrong with a cell that should be a text; None if it is one."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return f"empty text in {where}"
    if not isinstance(cell, str):
        return f"{where} holds a {type(cell).__name__}, not a text"
    if not cell.isascii() and any("\ud800" <= char <= "\udfff" for char in cell):
        return f"{where} holds a lone surrogate, which is no character"
    return None


def _class_label(cell: object) -> str:
    """Give a label's name; numbers of JSON and Parquet are named as they are written."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and math.isfinite(cell):
        return f"{cell:g}"  # a whole number that a table with gaps turned into a float
    if isinstance(cell, int):
        return str(cell)
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise ValueError("empty label")
    if not isinstance(cell, str):
        raise ValueError(f"the label is a {type(cell).__name__}; a name or a number is allowed")
    return cell.strip()


def _class_labels(cell: object) -> tuple[str, ...]:
    """Give a text's labels: a list of JSON or Parquet, or a cell split at ``|``; none is fine."""
    if isinstance(cell, str):
        cell = cell.split("|") if cell.strip() else []
    if not isinstance(cell, list):
        raise ValueError("the labels are no list; in TSV and CSV put | between them")
    names = tuple(_class_label(item) for item in cell)
    if len(set(names)) < len(names):
        raise ValueError(f"a label is there twice: {', '.join(names)}")
    return names


def _score(cell: object) -> float:
    try:
        score = float(cell)  # type: ignore[arg-type]  # anything else than a number is refused
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        shown = "empty" if cell is None or cell == "" else f"{cell!r}"
        raise ValueError(f"the score is {shown}, not a number")
    return score
