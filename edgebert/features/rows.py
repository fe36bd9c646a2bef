"""One row of a source: its key, its text, what is carried along, or why it can't be used."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgebert.errors import DataError
from edgebert.features.entries import Scalar

TEXT_NAMES = ("text", "sentence")
_MOST_INT = (1 << 63) - 1  # what every store has room for
_MOST_KEY_BYTES = 2500  # PostgreSQL's index has room for 2,704


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns that are read.

    Attributes:
        text: None finds it by its usual names, `TEXT_NAMES`.
        id: None makes a row's place its key.
        metadata: Carried along with each entry.
    """

    text: str | None = None
    id: str | None = None
    metadata: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """Names that a source must have."""
        return tuple(x for x in (self.text, self.id, *self.metadata) if x is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row as it was read.

    Attributes:
        place: Where it is, like ``notes.txt:12``.
        key: What it is known by; None where it has none that can be used.
        text: Its text; what can't be used is ``""``.
        metadata: Columns that are carried along.
        fault: Why it can't be used; None when it can.
    """

    place: str
    key: str | None
    text: str
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    fault: str | None = None


def bad_row(place: str, fault: str, *, key: str | None = None) -> Row:
    """Make a row that can't be used."""
    return Row(place=place, key=key, text="", fault=fault)


def row_of(
    place: str, text: object, *, key: object = None, metadata: Mapping[str, object] | None = None
) -> Row:
    """Check what a source holds of a row.

    Args:
        place: Where it is.
        text: What should be its text.
        key: What should be its key: a text or a whole number; None takes the place.
        metadata: Values by name: texts, numbers, truth values, dates (kept as ISO 8601 text), or
            None, which NaN becomes.
    """
    try:
        name = _key(place if key is None else key)
    except ValueError as error:
        return bad_row(place, str(error))
    try:
        kept = {name: scalar_of(name, value) for name, value in (metadata or {}).items()}
        return Row(place=place, key=name, text=_text(text), metadata=kept)
    except ValueError as error:
        return bad_row(place, str(error), key=name)


def row_of_cells(
    place: str, cells: Mapping[str, object], columns: Columns, *, text_column: str
) -> Row:
    """Check the wanted cells of a row of a table; a cell that isn't there is None."""
    metadata = {name: cells.get(name) for name in columns.metadata}
    if columns.id is None:
        return row_of(place, cells.get(text_column), metadata=metadata)
    key = cells.get(columns.id)
    if key is None:
        return bad_row(place, f"the id in column {columns.id!r} is missing")
    return row_of(place, cells.get(text_column), key=key, metadata=metadata)


def choose_text_column(names: Iterable[str], columns: Columns, *, source: str) -> str:
    """Give the column that holds the text.

    Raises:
        DataError: It can't be told, or a column that was asked for isn't there.
    """
    there = list(names)
    missing = [name for name in columns.asked if name not in there]
    if missing:
        raise DataError(f"{source} has no column {missing[0]!r}; its columns are {_listed(there)}.")
    if columns.text is not None:
        return columns.text
    found = [name for name in TEXT_NAMES if name in there]
    if len(found) != 1:
        why = "no" if not found else "more than one"
        raise DataError(
            f"{source} has {why} column of the names {_listed(TEXT_NAMES)} among {_listed(there)}; "
            "say which holds the text with --text-column."
        )
    return found[0]


def no_columns(columns: Columns, *, source: str) -> None:
    """Make sure that no column is asked for of a source without any.

    Raises:
        DataError: One is.
    """
    if columns.asked:
        raise DataError(
            f"{source} has no columns, so {columns.asked[0]!r} can't be read from it; leave the "
            "columns out, or say with --format what the source is."
        )


def _text(value: object) -> str:
    if value is None:
        raise ValueError("the text is missing")
    if not isinstance(value, str):
        raise ValueError(f"the text is of type {type(value).__name__}, not a string")
    if not value.strip():
        raise ValueError("the text is empty")
    return _utf8("the text", value)


def _key(value: object) -> str:
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        raise ValueError(f"the id is of type {type(value).__name__}, not a text or a whole number")
    key = str(value)
    if not key.strip():
        raise ValueError("the id is empty")
    size = len(_utf8("the id", key).encode())
    if size > _MOST_KEY_BYTES:
        raise ValueError(f"the id has {size} bytes, more than {_MOST_KEY_BYTES}")
    return key


def _utf8(what: str, text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not UTF-8 at character {error.start}") from error
    if "\x00" in text:  # PostgreSQL has no room for it
        raise ValueError(f"{what} holds the character NUL at {text.index(chr(0))}")
    return str(text)


def name_of(name: str) -> str:
    """Take a column's name.

    Raises:
        ValueError: A store has no room for it.
    """
    return _utf8("a column's name", name)


def scalar_of(name: str, value: object) -> Scalar:
    """Take a column's value as metadata: dates as texts, NaN as None.

    Raises:
        ValueError: It is something else, or more than every store has room for.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return _utf8(f"column {name!r}", value)
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, int) and not -_MOST_INT <= value <= _MOST_INT:
        raise ValueError(f"column {name!r} holds {value}, more than 64 bits have room for")
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"column {name!r} is infinite")
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(
        f"column {name!r} is of type {type(value).__name__}; metadata is a text, a number, a truth "
        "value or a date"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in list(names)[:12])
    return shown + (", …" if len(names) > 12 else "")
