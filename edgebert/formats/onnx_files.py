"""Which other files an ONNX model asks for, read without the ``onnx`` package or an engine.

A tensor may name a file, and the engine reads whatever it names: the bundle's own weights, or any
file of the machine. So it is found out before the engine sees the model.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from edgebert.formats.protobuf import Wire

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
_MAX_DEPTH = 100  # protobuf's own limit
_MAX_NAME = 4096


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
        return set(_locations(Wire(content), "model", 0, len(content), depth=0))


def _locations(wire: Wire, kind: str, start: int, end: int, *, depth: int) -> Iterator[str]:
    """Give the file that each tensor below a message is in."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"messages are nested more than {_MAX_DEPTH} deep")
    entry: dict[int, bytes] = {}
    for number, first, last in wire.messages(start, end):
        if kind == "entry" and number in (_KEY, _VALUE):
            if last - first > _MAX_NAME:
                raise ValueError(f"a text has {last - first} bytes")
            entry[number] = wire.content[first:last]
        elif number in _FIELDS[kind]:
            yield from _locations(wire, _FIELDS[kind][number], first, last, depth=depth + 1)
    if entry.get(_KEY) == b"location":
        yield entry.get(_VALUE, b"").decode("utf-8", errors="backslashreplace")
