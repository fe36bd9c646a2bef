"""The contract's model as a ``.tflite`` file, put together without torch or a converter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.edgebert.bundles import HIDDEN, TABLE, TYPES

_KINDS = {"f": schema.TensorType.FLOAT32, "i": schema.TensorType.INT32, "b": schema.TensorType.INT8}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class _Graph:
    """One subgraph of a model, grown operator by operator."""

    def __init__(self, model: Any, name: str) -> None:
        self.model = model
        self.graph = schema.SubGraphT(name=name, tensors=[], operators=[], inputs=[], outputs=[])
        model.subgraphs.append(self.graph)

    def tensor(self, name: str, shape: Sequence[int], kind: str = "f", buffer: int = 0) -> int:
        tensor = schema.TensorT(name=name, shape=list(shape), type=_KINDS[kind], buffer=buffer)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def constant(self, values: Any) -> int:
        data = np.frombuffer(values.tobytes(), dtype=np.uint8)
        self.model.buffers.append(schema.BufferT(data=data))
        kind = "b" if values.dtype == np.int8 else values.dtype.kind
        return self.tensor("c", values.shape, kind, len(self.model.buffers) - 1)

    def op(self, kind: str, inputs: list[int], shape: Sequence[int], **options: Any) -> int:
        code = getattr(schema.BuiltinOperator, kind)
        self.model.operatorCodes.append(
            schema.OperatorCodeT(deprecatedBuiltinCode=code, builtinCode=code)
        )
        output = self.tensor(kind, shape)
        operator = schema.OperatorT(
            opcodeIndex=len(self.model.operatorCodes) - 1, inputs=inputs, outputs=[output]
        )
        family = {"SUM": "Reducer"}.get(kind, kind.title().replace("_", ""))
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{family}Options", 0)
        if operator.builtinOptionsType:
            operator.builtinOptions = getattr(schema, f"{family}OptionsT")(**options)
        self.graph.operators.append(operator)
        return output


def write_tflite_graph(
    path: Path,
    *,
    lengths: Sequence[int] = (4, 8, 32),
    row_scales: bool = False,
    backwards: bool = False,
) -> None:
    """Write the model of `tests.edgebert.bundles`, with ``last_hidden_state``.

    Args:
        path: The file.
        lengths: One signature each.
        row_scales: Say of the table of words that it is INT8 with one scale a row.
        backwards: Declare the inputs in another order.
    """
    model = schema.ModelT(
        version=3, operatorCodes=[], subgraphs=[], buffers=[schema.BufferT()], signatureDefs=[]
    )
    for length in lengths:
        _add_signature(model, length, row_scales=row_scales, step=-1 if backwards else 1)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(builder.Output())


def _add_signature(model: Any, length: int, *, row_scales: bool, step: int) -> None:
    name = f"s{length}"
    graph = _Graph(model, name)
    inputs = [graph.tensor(key, (1, length), "i") for key in INPUTS]
    ids, mask, kinds = inputs

    def reshape(tensor: int, *shape: int) -> int:
        target = graph.constant(np.array(shape, dtype=np.int32))
        return graph.op("RESHAPE", [tensor, target], shape, newShape=list(shape))

    def flat(tensor: int) -> int:
        found = reshape(tensor, length)
        graph.graph.tensors[found].type = _KINDS["i"]
        return found

    first = graph.constant(np.array([0], dtype=np.int32))
    table = graph.constant(TABLE.astype(np.int8)) if row_scales else graph.constant(TABLE)
    if row_scales:
        graph.graph.tensors[table].quantization = schema.QuantizationParametersT(
            scale=[1.0] * len(TABLE), zeroPoint=[0] * len(TABLE)
        )
    words = graph.op("EMBEDDING_LOOKUP", [flat(ids), table], (length, HIDDEN))
    types = graph.op("EMBEDDING_LOOKUP", [flat(kinds), graph.constant(TYPES)], (length, HIDDEN))
    own = graph.op("ADD", [words, types], (length, HIDDEN))
    real = reshape(
        graph.op("CAST", [mask], (1, length), inDataType=_KINDS["i"], outDataType=_KINDS["f"]),
        length,
        1,
    )
    masked = graph.op("MUL", [own, real], (length, HIDDEN))
    total = graph.op("SUM", [masked, first], (1, HIDDEN), keepDims=True)
    count = graph.op("SUM", [real, first], (1, 1), keepDims=True)
    context = graph.op("DIV", [total, count], (1, HIDDEN))
    output = reshape(graph.op("ADD", [own, context], (length, HIDDEN)), 1, length, HIDDEN)
    graph.graph.inputs, graph.graph.outputs = inputs[::step], [output]
    model.signatureDefs.append(
        schema.SignatureDefT(
            signatureKey=name,
            subgraphIndex=len(model.subgraphs) - 1,
            inputs=[
                schema.TensorMapT(name=key, tensorIndex=tensor)
                for key, tensor in list(zip(INPUTS, inputs, strict=True))[::step]
            ],
            outputs=[schema.TensorMapT(name="last_hidden_state", tensorIndex=output)],
        )
    )
