"""What an ``.onnx`` file declares, without ONNX Runtime or the package onnx.

The file is one protobuf message. Few of its fields are looked at; weights are stepped over.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from edgebert.foreign.graph_ports import GraphPorts, Shape
from edgebert.formats.protobuf import Wire

# Field numbers of onnx.proto, which never change.
_GRAPH = 7
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME = 1, 2, 8
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSOR, _TENSOR_SHAPE, _SHAPE_DIM, _DIM_VALUE = 1, 2, 1, 1
_TYPES = {1: "f32", 10: "f16", 16: "f16", 2: "i8", 3: "i8", 21: "i4", 22: "i4"}
_MAX_NAME = 4096


def read_onnx_ports(path: Path) -> GraphPorts:
    """Read the names and shapes of a model's inputs and outputs, and its kinds of weights.

    Raises:
        ValueError: It is no ONNX model.
        OSError: It can't be read.
    """
    if path.stat().st_size == 0:  # can't be mapped
        raise ValueError("it is empty")
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return _Reader(Wire(content)).read(len(content))


class _Reader:
    """Collects what one file declares."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def read(self, size: int) -> GraphPorts:
        """Read a whole file."""
        inputs: dict[str, Shape] = {}
        outputs: dict[str, Shape] = {}
        weights, types = set(), set()
        for start, end in self._all(0, size, _GRAPH):
            for number, first, last in self._wire.messages(start, end):
                if number == _INPUT:
                    inputs.update([self._port(first, last)])
                elif number == _OUTPUT:
                    outputs.update([self._port(first, last)])
                elif number == _INITIALIZER:
                    weights.add(self._text(first, last, _TENSOR_NAME))
                    types.update(self._matrix_type(first, last))
        if not outputs:
            raise ValueError("it declares no outputs")
        free = {name: shape for name, shape in inputs.items() if name not in weights}
        return GraphPorts(free, outputs, frozenset(types))

    def _port(self, start: int, end: int) -> tuple[str, Shape]:
        shape: Shape = None
        for kind in self._all(start, end, _VALUE_TYPE):
            for tensor in self._all(*kind, _TYPE_TENSOR):
                for dims in self._all(*tensor, _TENSOR_SHAPE):
                    shape = tuple(self._size(*dim) for dim in self._all(*dims, _SHAPE_DIM))
        return self._text(start, end, _VALUE_NAME), shape

    def _size(self, start: int, end: int) -> int | None:
        return next(iter(self._wire.numbers(start, end, _DIM_VALUE)), None)

    def _matrix_type(self, start: int, end: int) -> set[str]:
        """Give the type of a weight that is a matrix, or of more axes."""
        if len(self._wire.numbers(start, end, _TENSOR_DIMS)) < 2:
            return set()
        return {_TYPES.get(kind, "other") for kind in self._wire.numbers(start, end, _TENSOR_TYPE)}

    def _all(self, start: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
        for number, first, last in self._wire.messages(start, end):
            if number == wanted:
                yield first, last

    def _text(self, start: int, end: int, wanted: int) -> str:
        for first, last in self._all(start, end, wanted):
            if last - first > _MAX_NAME:
                raise ValueError(f"a name has {last - first} bytes")
            return self._wire.content[first:last].decode("utf-8", "backslashreplace")
        return ""
