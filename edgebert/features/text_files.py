"""Text, CSV, TSV and JSONL as rows, line by line in bounded memory."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeAlias

from edgebert.errors import DataError
from edgebert.features.rows import (
    Columns,
    Row,
    bad_row,
    choose_text_column,
    no_columns,
    row_of,
    row_of_cells,
)

logger = logging.getLogger(__name__)

MAX_BYTES = 16 << 20  # of a line, and of a file of a folder

_BOM = b"\xef\xbb\xbf"
_MOST_NAMES = 1000  # of columns of a file, that are kept in mind
_TOO_LONG = f"more than {MAX_BYTES} bytes"
_EMPTY = "the line is empty"

Lines: TypeAlias = Iterator[tuple[int, "str | None"]]  # number from 1; None: too long


def numbered_lines(stream: BinaryIO, name: str, *, ends: bool = False) -> Lines:
    """Give each line; a byte that is not UTF-8 becomes half a surrogate pair.

    Args:
        stream: Is read.
        name: Of the source, for errors.
        ends: Whether lines keep their ends.

    Raises:
        DataError: It is UTF-16.
    """
    number = 0
    while raw := stream.readline(MAX_BYTES + 1):
        number += 1
        if len(raw) > MAX_BYTES and not raw.endswith(b"\n"):
            while (rest := stream.readline(MAX_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield number, None
            continue
        if number == 1:
            if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{name} is UTF-16; save it as UTF-8.")
            raw = raw.removeprefix(_BOM)
        line = raw if ends else raw.removesuffix(b"\n").removesuffix(b"\r")
        yield number, line.decode("utf-8", "surrogateescape")


def text_rows(stream: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    """Give a line a row."""
    no_columns(columns, source=name)
    for number, line in numbered_lines(stream, name):
        place = f"{name}:{number}"
        if line is None:
            yield bad_row(place, f"the line has {_TOO_LONG}", key=place)
        else:
            yield row_of(place, line)


def jsonl_rows(stream: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    """Give an object a row; the first one tells which column is the text.

    Raises:
        DataError: No line has the column of the texts or the ids.
    """
    text_column, met = columns.text, dict[str, None]()
    for number, line in numbered_lines(stream, name):
        place = f"{name}:{number}"
        try:
            value = json.loads(line or "")
        except (ValueError, RecursionError) as error:
            fault = f"not JSON ({error})" if line else _EMPTY
            if line is None:
                fault = f"the line has {_TOO_LONG}"
            yield bad_row(place, fault, key=None if columns.id else place)
            continue
        if not isinstance(value, dict):
            fault = f"the line holds a {type(value).__name__}, not an object"
            yield bad_row(place, fault, key=None if columns.id else place)
            continue
        if text_column is None:
            named = Columns()  # the others may be absent from this object
            text_column = choose_text_column(value, named, source=f"{name}:{number}")
        met.update(dict.fromkeys(value) if len(met) < _MOST_NAMES else {})
        yield row_of_cells(place, value, columns, text_column=text_column)
    _check_met(met, columns, name)


def _check_met(met: Collection[str], columns: Columns, name: str) -> None:
    """Refuse a file of which no line has a column that each needs; warn of one that is carried."""
    if not met or len(met) >= _MOST_NAMES:
        return
    needed = Columns(text=columns.text or next(iter(met)), id=columns.id)
    choose_text_column(met, needed, source=name)
    for one in columns.metadata:
        if one not in met:
            logger.warning("no line of %s has the column %r", name, one)


def csv_rows(stream: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    """Give a record of RFC 4180 a row, numbered by its first line."""
    yield from _table_rows(_csv_records(stream, name), name, columns)


def tsv_rows(stream: BinaryIO, name: str, columns: Columns) -> Iterator[Row]:
    """Give a line a row; every TAB separates, and quotes are plain characters."""
    yield from _table_rows(_tsv_records(stream, name), name, columns)


TEXT_READERS: dict[str, Callable[[BinaryIO, str, Columns], Iterator[Row]]] = {
    "text": text_rows,
    "csv": csv_rows,
    "tsv": tsv_rows,
    "jsonl": jsonl_rows,
}


def _tsv_records(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(stream, name):
        yield number, _whole(line, number, name).split("\t")


def _csv_records(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(MAX_BYTES)
    lines = (_whole(line, n, name) for n, line in numbered_lines(stream, name, ends=True))
    reader = csv.reader(lines, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{name}:{first} is not CSV ({error}); is a quote left open? What comes behind it "
                "can't be told apart. Correct it and run again."
            ) from error
        yield first, cells


def _whole(line: str | None, number: int, name: str) -> str:
    if line is None:
        raise DataError(f"{name}:{number} has {_TOO_LONG}; is it a table at all?")
    return line


def _table_rows(
    records: Iterable[tuple[int, list[str]]], name: str, columns: Columns
) -> Iterator[Row]:
    """Name the cells by the first record, or by numbers from 0 where those were asked for."""
    stream = iter(records)
    number, first = next(stream, (0, []))
    if not number:
        return
    numbered = _numbers(first, columns.asked)
    names = [str(i) for i in range(len(first))] if numbered else first
    text_column = choose_text_column(names, columns, source=name)
    check_names(names, (text_column, *columns.asked), name)
    if numbered:
        yield _table_row(f"{name}:{number}", names, first, columns, text_column)
    for number, cells in stream:
        yield _table_row(f"{name}:{number}", names, cells, columns, text_column)


def _table_row(
    place: str, names: Sequence[str], cells: Sequence[str], columns: Columns, text_column: str
) -> Row:
    if len(cells) != len(names):
        fault = f"the row has {len(cells)} columns, not {len(names)}" if cells else _EMPTY
        return bad_row(place, fault, key=None if columns.id else place)
    found = dict(zip(names, cells, strict=True))
    return row_of_cells(place, found, columns, text_column=text_column)


def _numbers(first: Sequence[str], asked: Sequence[str]) -> bool:
    return bool(asked) and all(one.isdecimal() and one not in first for one in asked)


def check_names(names: Sequence[str], wanted: Sequence[str], source: str) -> None:
    """Make sure that each wanted column is there once.

    Raises:
        DataError: One is there more often.
    """
    for one in wanted:
        if names.count(one) > 1:
            raise DataError(f"{source} has {names.count(one)} columns named {one!r}; rename them.")
