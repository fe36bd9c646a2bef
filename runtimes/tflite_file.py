"""Whether a ``.tflite`` file is whole, asked before an engine sees it.

tflite-runtime follows a file's offsets wherever they lead, and ends the whole process on a file
that was cut short. So those that lead to the weights are followed here first.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

_IDENTIFIER = b"TFL3"
_CODES, _SUBGRAPHS, _BUFFERS, _SIGNATURES = 1, 2, 4, 7  # fields of the root table
_DATA, _OFFSET, _SIZE = 0, 1, 2  # fields of a buffer
_MOST_TABLES = 1 << 18  # of one kind; MiniLM with seven signatures has 1,500 buffers


class DamagedFileError(Exception):
    """The file is no TFLite model, or not all of one."""


def check_whole(path: Path) -> None:
    """Refuse a file that is no TFLite model, or not all of one.

    Raises:
        OSError: The file can't be read.
        DamagedFileError: With what is wrong with it.
    """
    with path.open("rb") as stream:
        start = stream.read(8)
        if start[4:] != _IDENTIFIER:
            raise DamagedFileError(f"bytes 4 to 7 are {start[4:]!r}, not {_IDENTIFIER!r}.")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                _follow(content)
            except (struct.error, IndexError) as error:
                raise DamagedFileError(
                    f"its offsets lead out of its {len(content)} bytes."
                ) from error


def _follow(content: mmap.mmap) -> None:
    root = _number(content, "<I", 0)
    for field in (_CODES, _SUBGRAPHS, _SIGNATURES):
        for table in _tables(content, root, field):
            _require(content, table + _size(content, table))
    for buffer in _tables(content, root, _BUFFERS):
        place = _field(content, buffer, _DATA)
        if place is not None:
            vector = place + _number(content, "<I", place)
            _require(content, vector + 4 + _number(content, "<I", vector))
        start, size = (_field(content, buffer, field) for field in (_OFFSET, _SIZE))
        if start is not None and size is not None:  # data behind the tables
            _require(content, _number(content, "<Q", start) + _number(content, "<Q", size))


def _tables(content: mmap.mmap, table: int, field: int) -> Iterator[int]:
    """Give the places of the tables in a vector."""
    place = _field(content, table, field)
    if place is None:
        return
    vector = place + _number(content, "<I", place)
    count = _number(content, "<I", vector)
    if count > _MOST_TABLES:
        raise IndexError(count)
    for entry in range(vector + 4, vector + 4 + 4 * count, 4):
        yield entry + _number(content, "<I", entry)


def _size(content: mmap.mmap, table: int) -> int:
    return _number(content, "<H", table - _number(content, "<i", table) + 2)


def _field(content: mmap.mmap, table: int, field: int) -> int | None:
    """Give the place of a table's field, or None for one that has its default."""
    names = table - _number(content, "<i", table)
    entry = 4 + 2 * field
    if entry >= _number(content, "<H", names):
        return None
    step = _number(content, "<H", names + entry)
    return table + step if step else None


def _number(content: mmap.mmap, kind: str, place: int) -> int:
    if place < 0:  # to struct, that counts from the end
        raise IndexError(place)
    value: int = struct.unpack_from(kind, content, place)[0]
    return value


def _require(content: mmap.mmap, end: int) -> None:
    if end > len(content):
        raise IndexError(end)
