"""INT8 with one scale a row, for engines that know one scale a tensor.

Of one scale a row, tflite-runtime 2.14 takes the first for all, and says nothing: cosines of 0.04.
So each row is divided by its own scale, after which all have the scale 1, and what comes out is
multiplied by the row's again: the INT8 numbers are those of one scale a row, and every engine reads
them right.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from compress.artifacts.tflite_model import (
    WeightUse,
    add_buffer,
    add_tensor,
    make_int8,
    operator_code,
    values_of,
    weight_uses,
)

_LARGEST = 127.0  # of INT8


@dataclass(frozen=True)
class _Levelled:
    """A weight as it is stored now.

    Attributes:
        weight: Number of the buffer with its rows, INT8.
        scales: Number of the buffer with each row's scale.
        factors: The scales, float32 ``[rows]``.
    """

    weight: int
    scales: int
    factors: np.ndarray[Any, np.dtype[np.float32]]


def quantize_rows(model: Any, *, exclude: Collection[str] = ()) -> None:
    """Make a float model's weights INT8, in place.

    Args:
        model: Of `compress.artifacts.tflite_model.read_tflite`.
        exclude: Names of nodes that are left as they are.
    """
    uses = [use for use in weight_uses(model) if use.name not in exclude]
    levelled: dict[int, _Levelled] = {}  # by buffer: signatures share them
    biases: dict[tuple[int, int], int] = {}
    for use in uses:
        if use.buffer not in levelled:
            levelled[use.buffer] = _level(model, values_of(model, use.weight))
        new, graph = levelled[use.buffer], model.subgraphs[use.graph]
        if use.kind == "Gather":
            factors = _look_up_scales(graph, use, new)
        else:
            _divide_bias(model, graph, use, new, biases)
            factors = add_tensor(graph, [len(new.factors)], buffer=new.scales)
        _multiply_output(model, graph, use, factors)
    for use in uses:  # at last: two uses may share the tensor
        make_int8(use.weight, buffer=levelled[use.buffer].weight)


def _level(model: Any, values: np.ndarray[Any, np.dtype[np.float32]]) -> _Levelled:
    factors = np.abs(values).max(axis=1) / np.float32(_LARGEST)
    factors[factors == 0] = 1.0
    rows = np.rint(values / factors[:, None]).astype(np.int8)
    return _Levelled(add_buffer(model, rows), add_buffer(model, factors), factors)


def _divide_bias(
    model: Any, graph: Any, use: WeightUse, new: _Levelled, biases: dict[tuple[int, int], int]
) -> None:
    """Divide a product's bias too: it is added before the output is multiplied."""
    place = use.operator.inputs[2] if len(use.operator.inputs) > 2 else -1
    if place < 0:
        return
    bias = graph.tensors[place]
    key = (bias.buffer, new.scales)
    if key not in biases:
        biases[key] = add_buffer(model, values_of(model, bias) / new.factors)
    use.operator.inputs[2] = add_tensor(graph, bias.shape, buffer=biases[key])


def _look_up_scales(graph: Any, use: WeightUse, new: _Levelled) -> int:
    """Look up the scales of the rows that are looked up; give the tensor ``[tokens, 1]``."""
    from ai_edge_litert.schema_py_generated import (  # type: ignore[import-untyped]
        OperatorT,
    )

    table = add_tensor(graph, [len(new.factors), 1], buffer=new.scales)
    tokens = graph.tensors[use.operator.outputs[0]].shape[0]
    found = add_tensor(graph, [tokens, 1])
    lookup = OperatorT(
        opcodeIndex=use.operator.opcodeIndex,
        inputs=[use.operator.inputs[0], table],
        outputs=[found],
    )
    graph.operators.insert(graph.operators.index(use.operator), lookup)
    return found


def _multiply_output(model: Any, graph: Any, use: WeightUse, factors: int) -> None:
    """Put a multiplication behind an operator; what followed it follows that."""
    from ai_edge_litert.schema_py_generated import BuiltinOptions, MulOptionsT, OperatorT

    (output,) = use.operator.outputs
    product = add_tensor(graph, graph.tensors[output].shape)
    names = graph.tensors[output].name, graph.tensors[product].name
    graph.tensors[product].name, graph.tensors[output].name = names  # the node keeps its name
    use.operator.outputs = [product]
    multiply = OperatorT(
        opcodeIndex=operator_code(model, "MUL"),
        inputs=[product, factors],
        outputs=[output],
        builtinOptionsType=BuiltinOptions.MulOptions,
        builtinOptions=MulOptionsT(),
    )
    graph.operators.insert(graph.operators.index(use.operator) + 1, multiply)
