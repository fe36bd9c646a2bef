"""What an ``.onnx`` file declares, without ONNX Runtime or the package onnx.

The file is one protobuf message. Few of its fields are looked at; weights are stepped over.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from edgebert.graph_ports import GraphPorts, Shape
from edgebert.protobuf import Field, Wire

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
        for graph in self._wire.messages(0, size, _GRAPH):
            for field in self._wire.fields(graph.start, graph.end):
                if field.number == _INPUT:
                    inputs.update([self._port(field)])
                elif field.number == _OUTPUT:
                    outputs.update([self._port(field)])
                elif field.number == _INITIALIZER:
                    name, kind, rank = self._tensor(field)
                    weights.add(name)
                    types.update([kind] if rank >= 2 else [])
        if not outputs:
            raise ValueError("it declares no outputs")
        free = {name: shape for name, shape in inputs.items() if name not in weights}
        return GraphPorts(free, outputs, frozenset(types))

    def _port(self, message: Field) -> tuple[str, Shape]:
        wire, name = self._wire, ""
        shape: Shape = None
        for field in wire.fields(message.start, message.end):
            if field.number == _VALUE_NAME:
                name = self._text(field)
            elif field.number == _VALUE_TYPE:
                for tensor in wire.messages(field.start, field.end, _TYPE_TENSOR):
                    for dims in wire.messages(tensor.start, tensor.end, _TENSOR_SHAPE):
                        found = wire.messages(dims.start, dims.end, _SHAPE_DIM)
                        shape = tuple(self._size(dim) for dim in found)
        return name, shape

    def _size(self, dim: Field) -> int | None:
        fields = self._wire.fields(dim.start, dim.end)
        return next((field.value for field in fields if field.number == _DIM_VALUE), None)

    def _tensor(self, message: Field) -> tuple[str, str, int]:
        """Give a weight's name, type and number of axes."""
        name, kind, rank = "", "other", 0
        for field in self._wire.fields(message.start, message.end):
            if field.number == _TENSOR_DIMS:
                rank += sum(1 for _ in self._wire.varints(field))
            elif field.number == _TENSOR_TYPE:
                kind = _TYPES.get(field.value or 0, "other")
            elif field.number == _TENSOR_NAME:
                name = self._text(field)
        return name, kind, rank

    def _text(self, field: Field) -> str:
        if field.end - field.start > _MAX_NAME:
            raise ValueError(f"a name has {field.end - field.start} bytes")
        return self._wire.content[field.start : field.end].decode("utf-8", "backslashreplace")
