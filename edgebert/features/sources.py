"""Where rows come from: files, folders, stdin, or anything in Python that can be iterated."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from edgebert.errors import DataError, InputError
from edgebert.features.rows import (
    Columns,
    Row,
    bad_row,
    choose_text_column,
    no_columns,
    row_of,
    row_of_cells,
)
from edgebert.features.text_files import MAX_BYTES, TEXT_READERS, check_names
from edgebert.inputs import check_choice

FORMATS = ("text", "csv", "tsv", "jsonl", "parquet")
_ENDINGS = {".txt": "text", **{f".{kind}": kind for kind in FORMATS[1:]}}
_BATCH_ROWS = 1024  # of Parquet, at once
STDIN = Path("-")


class Source:
    """Rows in order, each read when it is asked for. It can be iterated once.

    A row without an id column is known by its place: name of the file and number of the line or,
    in Parquet, of the row; in a folder, the folder's name and the path below it.
    """

    def __init__(self, inputs: object, columns: Columns, *, kind: str | None = None) -> None:
        """Look at what there is; no row is read.

        Args:
            inputs: A path, a list of `pathlib.Path`, ``-`` for stdin; or an iterable of texts, of
                tuples ``(key, text)`` or of mappings.
            columns: Those to read.
            kind: One of `FORMATS`; None tells it from a file's ending, and takes stdin as text.

        Raises:
            DataError: A path isn't there, or of no known kind.
            InputError: It is nothing of all that.
        """
        if kind is not None:
            check_choice("format", kind, FORMATS)
        self._columns, self._kind = columns, kind
        self._paths = _paths(inputs)
        self._items: Any = None if self._paths else inputs
        if not self._paths and not isinstance(inputs, Iterable):
            raise InputError(
                f"inputs is of type {type(inputs).__name__}; give a path, a list of paths, or an "
                "iterable of texts, of tuples (key, text) or of mappings."
            )
        for path in self._paths:
            self._kind_of(path)
        self._total = self._measure()
        self._before, self._position = 0, _nowhere

    def fraction(self) -> float | None:
        """Say which part of it was read, 0 to 1; None where that can't be known."""
        if not self._total:
            return None
        return min(1.0, (self._before + self._position()) / self._total)

    def require_apart(self, *places: Path | None) -> None:
        """Make sure that what is written isn't what is read.

        Raises:
            InputError: A place is one of the inputs, or in a folder of them.
        """
        inputs = [path.resolve() for path in self._paths if path != STDIN]
        for place in places:
            where = () if place is None else (place.resolve(), *place.resolve().parents)
            for path in inputs:
                if path in where:
                    raise InputError(
                        f"{place} is written to, and {path} is read; give the store (--to) and "
                        "the quarantine file (--quarantine) a place outside of the inputs."
                    )

    def __iter__(self) -> Iterator[Row]:
        if not self._paths:
            yield from self._python_rows()
        for path in self._paths:
            yield from self._file_rows(path)
            self._position = _nowhere
            self._before += path.stat().st_size if path.is_file() else 0

    def _file_rows(self, path: Path) -> Iterator[Row]:
        if path.is_dir():
            yield from _folder_rows(path, self._columns)
            return
        kind = self._kind_of(path)
        if kind == "parquet":
            yield from self._parquet_rows(path)
            return
        with _opened(path) as (stream, name, position):
            self._position = position
            yield from TEXT_READERS[kind](stream, name, self._columns)

    def _parquet_rows(self, path: Path) -> Iterator[Row]:
        from edgebert.features.parquet_rows import parquet_batches

        columns, number, size = self._columns, 0, path.stat().st_size

        def choose(names: list[str]) -> str:
            found = choose_text_column(names, columns, source=str(path))
            check_names(names, (found, *columns.asked), str(path))
            return found

        for text_column, read, cells in parquet_batches(path, columns, choose, _BATCH_ROWS):
            self._position = lambda read=read: int(read * size)  # type: ignore[misc]
            for record in cells:
                number += 1
                place = f"{_shown(path.name)}:{number}"
                yield row_of_cells(place, record, columns, text_column=text_column)

    def _python_rows(self) -> Iterator[Row]:
        text_column, count = self._columns.text, 0
        self._position = lambda: count
        for item in self._items:
            count += 1
            place = f"rows:{count}"
            if isinstance(item, Mapping):
                if text_column is None:
                    text_column = choose_text_column(map(str, item), Columns(), source=place)
                yield row_of_cells(place, item, self._columns, text_column=text_column)
                continue
            no_columns(self._columns, source=place)
            if isinstance(item, tuple | list) and len(item) == 2:
                missing = item[0] is None
                yield (
                    bad_row(place, "the id is missing")
                    if missing
                    else row_of(place, item[1], key=item[0])
                )
            else:
                yield row_of(place, item)

    def _kind_of(self, path: Path) -> str:
        if path == STDIN:
            if self._kind == "parquet":
                raise DataError("Parquet can't be read from stdin; give the path of the file.")
            return self._kind or "text"
        if not path.exists():
            raise DataError(f"{path} does not exist; check the path.")
        if path.is_dir():
            return "folder"
        ending = Path(path.name.lower().removesuffix(".gz")).suffix
        if self._kind is None and ending not in _ENDINGS:
            raise DataError(
                f"{path} has the ending {ending!r}; allowed: {', '.join(_ENDINGS)}, all but the "
                f"last also with .gz. Or say with --format what it is: {', '.join(FORMATS)}."
            )
        return self._kind or _ENDINGS[ending]

    def _measure(self) -> int | None:
        if not self._paths:
            return len(self._items) if hasattr(self._items, "__len__") else None
        if all(path.is_file() for path in self._paths):
            return sum(path.stat().st_size for path in self._paths)
        return None


def _paths(inputs: object) -> list[Path]:
    if isinstance(inputs, str | os.PathLike):
        return [Path(inputs)]
    if isinstance(inputs, list | tuple) and inputs and all(isinstance(x, Path) for x in inputs):
        return list(inputs)
    if isinstance(inputs, bytes | bytearray | Mapping | set | frozenset):
        raise InputError(
            f"inputs is of type {type(inputs).__name__}, which has no order of texts; give a list."
        )
    return []


def _nowhere() -> int:
    return 0


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, str, Callable[[], int]]]:
    """Give a file's bytes, its name, and how far it was read."""
    if path == STDIN:
        if sys.stdin is None:
            raise DataError("stdin is closed; give the path of a file.")
        stdin = sys.stdin  # kept: were it freed while a thread still waits for it, Python aborts
        yield stdin.buffer, "stdin", _nowhere
        return
    with path.open("rb") as raw:
        if not path.name.lower().endswith(".gz"):
            yield raw, _shown(path.name), raw.tell
            return
        try:
            with gzip.open(raw) as stream:
                yield cast(BinaryIO, stream), _shown(path.name), raw.tell
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} is damaged or not gzip ({error}); make it again.") from error


def _folder_rows(folder: Path, columns: Columns) -> Iterator[Row]:
    """Give each file of a folder as a row, then those of the folders in it, all by name."""
    no_columns(columns, source=str(folder))
    name = folder.resolve().name
    for at, folders, files in os.walk(folder, onerror=_unreadable):
        folders.sort()
        links = [one for one in folders if (Path(at) / one).is_symlink()]
        for file in sorted([*files, *links]):
            path = Path(at) / file
            place = _shown(f"{name}/{path.relative_to(folder).as_posix()}")
            if path.is_dir():
                yield bad_row(place, "it is a link to a folder, which isn't followed", key=place)
            elif not path.is_file():
                yield bad_row(place, "it is no regular file", key=place)
            elif path.stat().st_size > MAX_BYTES:
                yield bad_row(place, f"the file has more than {MAX_BYTES} bytes", key=place)
            else:
                text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
                yield row_of(place, text.decode("utf-8", "surrogateescape"))


def _unreadable(error: OSError) -> None:
    raise DataError(
        f"The folder {error.filename} can't be read ({error.strerror}); without it, its files "
        "would be taken for gone."
    ) from error


def _shown(name: str) -> str:
    r"""Write a byte of a file's name that is not UTF-8 as ``\xff``, as stores have UTF-8 alone."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
