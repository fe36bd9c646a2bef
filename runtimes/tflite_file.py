"""Whether a ``.tflite`` file is whole, asked before an engine sees it.

tflite-runtime follows a file's offsets wherever they lead, and ends the whole process on a file
that was cut short. So those that lead to the weights are followed here first.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

Content = mmap.mmap | bytes

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


def _follow(content: Content) -> None:
    root = number(content, "<I", 0)
    for which in (_CODES, _SUBGRAPHS, _SIGNATURES):
        for table in tables(content, root, which):
            _require(content, table + _size(content, table))
    for buffer in tables(content, root, _BUFFERS):
        place = field(content, buffer, _DATA)
        if place is not None:
            vector = place + number(content, "<I", place)
            _require(content, vector + 4 + number(content, "<I", vector))
        start, size = (field(content, buffer, which) for which in (_OFFSET, _SIZE))
        if start is not None and size is not None:  # data behind the tables
            _require(content, number(content, "<Q", start) + number(content, "<Q", size))


def tables(content: Content, table: int, which: int) -> Iterator[int]:
    """Give the places of the tables in a table's vector, which may not be there."""
    place = field(content, table, which)
    if place is None:
        return
    vector = place + number(content, "<I", place)
    count = number(content, "<I", vector)
    if count > _MOST_TABLES:
        raise IndexError(count)
    for entry in range(vector + 4, vector + 4 + 4 * count, 4):
        yield entry + number(content, "<I", entry)


def _size(content: Content, table: int) -> int:
    return number(content, "<H", table - number(content, "<i", table) + 2)


def field(content: Content, table: int, which: int) -> int | None:
    """Give the place of a table's field, or None for one that has its default."""
    names = table - number(content, "<i", table)
    entry = 4 + 2 * which
    if entry >= number(content, "<H", names):
        return None
    step = number(content, "<H", names + entry)
    return table + step if step else None


def number(content: Content, kind: str, place: int) -> int:
    """Give the number at a place, of a kind as `struct` spells it."""
    if place < 0:  # to struct, that counts from the end
        raise IndexError(place)
    value: int = struct.unpack_from(kind, content, place)[0]
    return value


def _require(content: Content, end: int) -> None:
    if end > len(content):
        raise IndexError(end)
