"""Write a small FlatBuffer, alone or in front of an old one that it refers to.

Offsets of this format lead forward only. So the new tables come first, and behind them an old file
may follow as it is: what is relative within it stays right.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ALIGN = 64  # of what comes behind: no tensor asks for more


@dataclass(frozen=True)
class Old:
    """A table, string or vector of the old file, at its place there."""

    place: int


@dataclass(frozen=True)
class Table:
    """A table by the numbers of its fields.

    Attributes:
        fields: A whole number is 32 bits wide, or 8 as `Byte`; None is left out.
    """

    fields: Mapping[int, Value]


@dataclass(frozen=True)
class Byte:
    """A number of 8 bits, such as the kind of a union."""

    value: int


Value = int | Byte | str | bytes | Table | Old | Sequence[Table | Old] | None


def flatbuffer(root: Table, identifier: bytes, old: bytes = b"") -> bytes:
    """Write a file.

    Args:
        root: Its first table.
        identifier: Four bytes that tell the kind of file.
        old: A file that `Old` places are in.
    """
    writer = _Writer()
    writer.buffer += struct.pack("<I4s", 0, identifier)
    writer.value(root, 0)
    writer.pad(_ALIGN if old else 4)
    start = len(writer.buffer)
    for at, place in writer.olds:
        struct.pack_into("<I", writer.buffer, at, start + place - at)
    return bytes(writer.buffer) + old


class _Writer:
    def __init__(self) -> None:
        self.buffer = bytearray()
        self.olds: list[tuple[int, int]] = []  # where an offset is, and what it leads to

    def pad(self, size: int, *, ahead: int = 0) -> None:
        """Add zeros until what comes ``ahead`` bytes later is at a multiple of ``size``."""
        self.buffer += bytes(-(len(self.buffer) + ahead) % size)

    def value(self, value: Value, at: int) -> None:
        """Write what the offset at ``at`` leads to."""
        if isinstance(value, Old):
            self.olds.append((at, value.place))
            return
        if isinstance(value, bytes):  # a tensor's: 16 bytes, as the engines map it
            self.pad(16, ahead=4)
        elif isinstance(value, Table):
            self._vtable(value)
        else:
            self.pad(4)
        struct.pack_into("<I", self.buffer, at, len(self.buffer) - at)
        if isinstance(value, Table):
            self._table(value)
        elif isinstance(value, str):
            self.buffer += _counted(value.encode("utf-8"))
        elif isinstance(value, bytes):
            self.buffer += _counted(value)
        elif not isinstance(value, int | Byte | None):
            self._vector(value)

    def _vtable(self, table: Table) -> None:
        """Write where a table's fields are, four bytes each, just before the table."""
        names = sorted(name for name, own in table.fields.items() if own is not None)
        places = {name: 4 + 4 * i for i, name in enumerate(names)}
        last = max(names, default=-1)
        entries = [places.get(name, 0) for name in range(last + 1)]
        self.pad(4, ahead=4 + 2 * len(entries))
        head = (4 + 2 * len(entries), 4 + 4 * len(names))
        self.buffer += struct.pack(f"<{2 + len(entries)}H", *head, *entries)

    def _table(self, table: Table) -> None:
        names = sorted(name for name, own in table.fields.items() if own is not None)
        start = len(self.buffer)
        self.buffer += struct.pack("<i", 4 + 2 * (max(names, default=-1) + 1))
        self.buffer += bytes(4 * len(names))
        for i, name in enumerate(names):
            at, own = start + 4 + 4 * i, table.fields[name]
            if isinstance(own, int):
                struct.pack_into("<I", self.buffer, at, own)
            elif isinstance(own, Byte):
                struct.pack_into("<B", self.buffer, at, own.value)
            else:
                self.value(own, at)

    def _vector(self, items: Sequence[Table | Old]) -> None:
        start = len(self.buffer)
        self.buffer += struct.pack("<I", len(items)) + bytes(4 * len(items))
        for i, item in enumerate(items):
            self.value(item, start + 4 + 4 * i)


def _counted(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data + b"\0"
