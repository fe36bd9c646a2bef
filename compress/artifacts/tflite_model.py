"""A ``.tflite`` file as objects: read, its weights found by name, written again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Where an operator that multiplies by or looks up in a weight has it among its inputs.
_PLACES = {"FULLY_CONNECTED": 1, "EMBEDDING_LOOKUP": 1, "BATCH_MATMUL": 1, "GATHER": 0}
_LOOKUPS = ("EMBEDDING_LOOKUP", "GATHER")
_FLOAT, _INT8 = 0, 9  # of the format's TensorType
_BITS = {_FLOAT: 32, _INT8: 8, 17: 4}  # of a weight's numbers


@dataclass(frozen=True)
class WeightUse:
    """An operator with a weight.

    Attributes:
        name: The node's, as ``/bert/encoder/layer.0/output/dense/MatMul``; the same for all
            operators that do the same with one weight.
        kind: ``MatMul`` or ``Gather``.
        graph: Number of the subgraph.
        operator: The object.
        weight: The weight's tensor object.
        buffer: Number of the buffer that has the weight's values.
    """

    name: str
    kind: str
    graph: int
    operator: Any  # the schema's classes have no types
    weight: Any
    buffer: int

    @property
    def bits(self) -> int:
        """Of each of the weight's numbers: 32, 8 or 4."""
        return _BITS[self.weight.type]

    @property
    def int8(self) -> bool:
        """Whether the weight is INT8."""
        return self.bits == 8


def read_tflite(path: Path) -> Any:
    """Read a file as the schema's ``ModelT``, weights included."""
    return parse_tflite(path.read_bytes())


def parse_tflite(content: bytes) -> Any:
    """Read a file's bytes as the schema's ``ModelT``, weights included."""
    from ai_edge_litert.tools.flatbuffer_utils import (  # type: ignore[import-untyped]
        read_model_from_bytearray,
    )

    return read_model_from_bytearray(content)


def write_tflite(model: Any, path: Path) -> None:
    """Write a model that `read_tflite` gave; afterwards only `weight_uses` may be asked of it.

    Weights stand inside the tables, each at a multiple of 16 bytes: the schema's own writer puts
    them at any place, which costs speed, and the quantizer's behind the tables, where older engines
    don't look whether the file ends before them. What no tensor uses is left out, and the scales of
    a weight, which every signature repeats (0.6 MB each for MiniLM), are written once.
    """
    import flatbuffers  # type: ignore[import-untyped]

    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in model.metadata or ()}
    size = 2**20
    for number, buffer in enumerate(model.buffers):
        content = b"" if number not in used or buffer.data is None else bytes(buffer.data)
        model.buffers[number] = _Aligned(content)
        size += len(content) + 64
    scales: dict[str, _Once] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.quantization is not None:
                key = repr(vars(tensor.quantization))
                tensor.quantization = scales.setdefault(key, _Once(tensor.quantization))
    builder = flatbuffers.Builder(size)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(builder.Output())


class _Aligned:
    """Writes a buffer's values at a multiple of 16 bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def Pack(self, builder: Any) -> Any:  # noqa: N802  (the name is the schema's)
        if self.data:
            builder.StartVector(1, len(self.data), 16)
            builder.head -= len(self.data)
            builder.Bytes[builder.head : builder.head + len(self.data)] = self.data
            values = builder.EndVector()
        builder.StartObject(3)
        if self.data:
            builder.PrependUOffsetTRelativeSlot(0, values, 0)
        return builder.EndObject()


class _Once:
    """Writes an object once, however many refer to it."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self._place: Any = None

    def Pack(self, builder: Any) -> Any:  # noqa: N802  (see above)
        if self._place is None:
            self._place = self._content.Pack(builder)
        return self._place


def operator_names(model: Any) -> list[str]:
    """Name the kinds of operators that a model has; a foreign one is ``CUSTOM``."""
    from ai_edge_litert.schema_py_generated import (  # type: ignore[import-untyped]
        BuiltinOperator,
    )

    names = {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}
    # Codes above 127 don't fit the older of the two fields.
    return [names[max(c.builtinCode, c.deprecatedBuiltinCode)] for c in model.operatorCodes]


def weight_uses(model: Any) -> Iterator[WeightUse]:
    """Find the operators with a matrix or a table of more than one column, of any precision."""
    names = operator_names(model)
    for number, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            kind = names[operator.opcodeIndex]
            if kind not in _PLACES:
                continue
            weight = graph.tensors[operator.inputs[_PLACES[kind]]]
            data = model.buffers[weight.buffer].data
            plain = len(weight.shape) == 2 and weight.shape[1] > 1
            if data is None or not plain or weight.type not in _BITS:
                continue
            yield WeightUse(
                name=graph.tensors[operator.outputs[0]].name.decode().partition(":")[0],
                kind="Gather" if kind in _LOOKUPS else "MatMul",
                graph=number,
                operator=operator,
                weight=weight,
                buffer=weight.buffer,
            )


def values_of(model: Any, tensor: Any) -> np.ndarray[Any, Any]:
    """Give a constant's values: float32 or, of INT8 weights, int8."""
    kind = np.int8 if tensor.type == _INT8 else np.float32
    return np.frombuffer(model.buffers[tensor.buffer].data, dtype=kind).reshape(tensor.shape)


def add_buffer(model: Any, values: np.ndarray[Any, Any]) -> int:
    """Add a constant's values; give the buffer's number."""
    from ai_edge_litert.schema_py_generated import BufferT

    model.buffers.append(BufferT(data=np.frombuffer(values.tobytes(), np.uint8)))
    return len(model.buffers) - 1


def add_tensor(graph: Any, shape: Sequence[int], *, buffer: int = 0) -> int:
    """Add a float32 tensor to a subgraph, a constant when it has a buffer; give its number."""
    from ai_edge_litert.schema_py_generated import TensorT

    number = len(graph.tensors)
    name = f"x{number}:{graph.name.decode()}".encode()  # unique in the file, as the quantizer asks
    graph.tensors.append(TensorT(name=name, shape=list(shape), type=_FLOAT, buffer=buffer))
    return number


def make_int8(tensor: Any, *, buffer: int) -> None:
    """Turn a constant into INT8 of scale 1, with the values in another buffer."""
    from ai_edge_litert.schema_py_generated import QuantizationParametersT

    tensor.type, tensor.buffer = _INT8, buffer
    tensor.quantization = QuantizationParametersT(scale=[1.0], zeroPoint=[0])


def operator_code(model: Any, name: str) -> int:
    """Give the number of a kind of operator in a model, which may be new to it."""
    from ai_edge_litert.schema_py_generated import BuiltinOperator, OperatorCodeT

    names = operator_names(model)
    if name not in names:
        code = getattr(BuiltinOperator, name)
        model.operatorCodes.append(
            OperatorCodeT(deprecatedBuiltinCode=min(code, 127), builtinCode=code, version=1)
        )
        return len(names)
    return names.index(name)
