"""TSV, CSV, JSONL, JSON, Parquet, CoNLL and plain text files as columns of cells with lines.

A file is read whole and strictly: what can't be read is a bad row, named by file and line.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from compress.data.cells import BadRows as BadRows
from compress.data.cells import Table as Table
from compress.data.conll import conll_table
from compress.data.json_files import json_table, jsonl_table
from edgebert.errors import DataError

FORMATS = (".tsv", ".csv", ".jsonl", ".json", ".txt", ".conll", ".parquet")
TAGGED_FORMATS = (".conll", ".txt", ".tsv")  # of words with their tags
DEFAULT_NAMES = frozenset({"sentence", "sentence1", "text", "text_a", "label"})

Record: TypeAlias = tuple[int, list[str]]  # line from 1, cells


def read_table(path: Path, *, wanted: Sequence[str] = (), tagged: bool = False) -> Table:
    """Read a data file by the ending of its name, which may be followed by ``.gz``.

    In TSV, quotes are plain characters and every tab separates; CSV follows RFC 4180. A TSV or
    CSV file has no header when ``wanted`` holds a number that is no name in its first line. Empty
    lines at the end of a file are no rows.

    Args:
        path: The file.
        wanted: Columns asked for by the user: names, or numbers from 0.
        tagged: Whether words with tags are wanted: ``.txt`` and ``.tsv`` are then CoNLL too.

    Raises:
        DataError: The file is missing, empty, damaged, of an unknown kind, not UTF-8 as a whole,
            or its first line looks like a header though numbers are wanted.
    """
    kind = file_kind(path)
    bad = BadRows(str(path), unit="row" if kind in (".parquet", ".json") else "line")
    if not path.is_file():
        problem = "is a directory, not a file" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {problem}; check the path.")
    if kind == ".parquet":
        table = _read_parquet(path, bad)
    elif kind == ".json":
        table = json_table(_read_bytes(path), bad)
    else:
        table = _text_table(kind, _decode_lines(_read_bytes(path), bad), wanted, tagged, bad)
    if not table.lines:
        bad.raise_if_any()
        raise DataError(f"{path} has no rows.")
    return table


def _text_table(
    kind: str, lines: list[tuple[int, str]], wanted: Sequence[str], tagged: bool, bad: BadRows
) -> Table:
    if tagged and kind in TAGGED_FORMATS:
        return conll_table(lines, bad)
    if kind == ".conll":
        raise DataError(f"{bad.source} holds words with tags; give --task token-classification.")
    if kind == ".txt":
        return Table({"text": [x for _, x in lines]}, [n for n, _ in lines], bad, plain=True)
    if kind == ".jsonl":
        return jsonl_table(lines, bad)
    records = _tsv_records(lines) if kind == ".tsv" else _csv_records(lines, bad)
    return _named_columns(list(records), wanted, bad)


def file_kind(path: Path) -> str:
    """Give the ending that says how a data file is read, ``.gz`` taken off.

    Raises:
        DataError: No reader has that ending.
    """
    name = path.name.lower()
    kind = Path(name.removesuffix(".gz")).suffix
    if kind not in FORMATS or (kind == ".parquet" and name.endswith(".gz")):
        raise DataError(
            f"{path} has an unknown kind {kind or 'without ending'!r}; "
            f"allowed: {', '.join(FORMATS)}, all but Parquet also with .gz."
        )
    return kind


def _read_bytes(path: Path) -> bytes:
    try:
        if path.name.lower().endswith(".gz"):
            with gzip.open(path) as stream:
                data = stream.read()
        else:
            data = path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or not gzip ({error}); make it again.") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is UTF-16; save it as UTF-8.")
    return data.removeprefix(b"\xef\xbb\xbf")


def _decode_lines(data: bytes, bad: BadRows) -> list[tuple[int, str]]:
    """Split at line feeds alone, so that a U+2028 or a lone CR inside a text stays there."""
    raw = data.split(b"\n")
    while raw and not raw[-1].strip():
        raw.pop()
    lines = []
    for number, line in enumerate(raw, start=1):
        try:
            lines.append((number, line.removesuffix(b"\r").decode("utf-8")))
        except UnicodeDecodeError as error:
            byte = line[error.start]
            bad.add(number, f"not UTF-8 (byte 0x{byte:02x} at position {error.start + 1})")
    return lines


def _tsv_records(lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
    for number, line in lines:
        yield number, line.split("\t")


def _csv_records(lines: Sequence[tuple[int, str]], bad: BadRows) -> Iterator[Record]:
    """Read quoted fields, which may run over several lines; a row has the number of its first."""
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    while True:
        start = reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad.add(lines[start][0], f"not CSV ({error}); is a quote left open?")
            return
        yield lines[start][0], cells


def _named_columns(records: Sequence[Record], wanted: Sequence[str], bad: BadRows) -> Table:
    if not records:
        return Table({}, [], bad)
    first = records[0][1]
    numbers = [int(name) for name in wanted if name.isdecimal() and name not in first]
    if numbers:
        _refuse_header(first, numbers, bad.source)
        names = [str(number) for number in range(max(numbers) + 1)]
        rows, expected = records, f"{len(names)} or more"
    else:
        names, rows = first, records[1:]
        expected = f"{len(names)} ({', '.join(names)})"
        for name in DEFAULT_NAMES.union(wanted):
            if names.count(name) > 1:
                raise DataError(f"{bad.source} has {names.count(name)} columns named {name!r}.")
    good = []
    for line, cells in rows:
        if len(cells) == len(names) or (numbers and len(cells) > len(names)):
            good.append((line, cells))
        else:
            bad.add(line, f"{len(cells)} columns, expected {expected}")
    columns = {name: [cells[i] for _, cells in good] for i, name in enumerate(names)}
    return Table(columns, [line for line, _ in good], bad, has_header=not numbers)


def _refuse_header(first: Sequence[str], numbers: Iterable[int], source: str) -> None:
    named = [first[n] for n in numbers if n < len(first) and first[n].lower() in DEFAULT_NAMES]
    if named:
        raise DataError(
            f"The first line of {source} looks like a header (it has {named[0]!r}), so give "
            f"columns by name: {', '.join(first)}. Numbers are for files without header."
        )


def _read_parquet(path: Path, bad: BadRows) -> Table:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise DataError(
            f"{path} needs the package pyarrow. Install it with: pip install 'edgebert[compress]'"
        ) from error
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged or not Parquet ({error}).") from error
    columns = {name: table.column(name).to_pylist() for name in dict.fromkeys(table.column_names)}
    return Table(columns, list(range(1, table.num_rows + 1)), bad)
