"""Which other files an ONNX model asks for, read without the ``onnx`` package or an engine.

A tensor may name a file, and the engine reads whatever it names: the bundle's own weights, or any
file of the machine. So it is found out before the engine sees the model.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

# Which fields of a message hold further messages that lead to a tensor (onnx.proto).
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {
        **{5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
        **{22: "sparse", 23: "sparse"},
    },
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
    "entry": {},
}
_KEY, _VALUE = 1, 2  # fields of an entry
_VARINT, _BYTES = 0, 2  # kinds of fields
_SIZES = {1: 8, 5: 4}  # of the other kinds, in bytes
_MAX_DEPTH = 100  # protobuf's own limit
_MAX_NAME = 4096
_MAX_TAG = 0xFFFFFFFF
_MAX_FIELDS = 1 << 20  # a second's work; MiniLM has 7,000


def external_files(path: Path) -> set[str]:
    """Name the files that a model's tensors are in, as the model spells them.

    The file is mapped, and its tensors are skipped, so this takes next to no memory.

    Raises:
        ValueError: It is not the protobuf that it should be.
        OSError: It can't be read.
    """
    if path.stat().st_size == 0:  # can't be mapped
        return set()
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return set(_Walk(content).locations("model", 0, len(content), depth=0))


class _Walk:
    """Goes through the messages of one file, up to a number of fields."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self.fields_left = _MAX_FIELDS

    def locations(self, kind: str, start: int, end: int, *, depth: int) -> Iterator[str]:
        """Give the file that each tensor below a message is in."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"messages are nested more than {_MAX_DEPTH} deep")
        entry: dict[int, bytes] = {}
        for number, first, last in self._messages(start, end):
            if kind == "entry" and number in (_KEY, _VALUE):
                if last - first > _MAX_NAME:
                    raise ValueError(f"a text has {last - first} bytes")
                entry[number] = self._content[first:last]
            elif number in _FIELDS[kind]:
                inner = _FIELDS[kind][number]
                yield from self.locations(inner, first, last, depth=depth + 1)
        if entry.get(_KEY) == b"location":
            yield entry.get(_VALUE, b"").decode("utf-8", errors="backslashreplace")

    def _messages(self, place: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Give number, start and end of each field that has a length of its own."""
        while place < end:
            self.fields_left -= 1
            if self.fields_left < 0:
                raise ValueError(f"it has more than {_MAX_FIELDS} fields")
            tag, place = self._varint(place, end)
            if tag > _MAX_TAG:  # protobuf would drop the upper bits and see another field
                raise ValueError(f"the number before byte {place} is no tag")
            size = _SIZES.get(tag & 7)
            if tag & 7 == _VARINT:
                _, place = self._varint(place, end)
                continue
            if tag & 7 == _BYTES:
                size, place = self._varint(place, end)
            if size is None:  # a group, which ONNX has none of
                raise ValueError(f"byte {place} begins a field of the kind {tag & 7}")
            if size > end - place:
                raise ValueError(f"a field goes on behind byte {end}")
            if tag & 7 == _BYTES:
                yield tag >> 3, place, place + size
            place += size

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if place >= end:
                break
            byte = self._content[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place
        raise ValueError(f"the number before byte {place} has no end")
