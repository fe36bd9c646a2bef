"""Embedding tables of an ONNX graph in INT8: every row has a scale of its own.

One scale a table, as other quantizers have it, is set by a few rare tokens: on a MiniLM that
answers questions it moved the logits twice as far as all matrix products in INT8 did.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from compress.artifacts.onnx_graph import replace_initializers, replace_nodes

_STEPS = 127
_LAST_AXIS = "table_scales_axis"  # name of a constant


def quantize_tables(model: ModelProto, exclude: Collection[str]) -> None:
    """Look tokens up in INT8, and their scales beside them: ``float(table[i]) * scales[i]``.

    Args:
        model: As from `compress.artifacts.onnx_weights.prepare`; changed in place.
        exclude: Names of nodes that stay in FP32.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        table = weights.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or not _is_table(table) or node.name in exclude:
            nodes.append(node)
            continue
        whole, scales = f"{table.name}_int8", f"{table.name}_scales"
        if whole not in weights:  # a shared table is packed once
            values = numpy_helper.to_array(table)
            factors = np.abs(values).max(axis=1) / _STEPS  # [V]
            divisors = np.where(factors == 0, 1.0, factors)[:, None]
            steps = np.rint(values / divisors).astype(np.int8)
            weights[whole] = numpy_helper.from_array(steps, whole)
            weights[scales] = numpy_helper.from_array(factors.astype(np.float32), scales)
            weights[_LAST_AXIS] = numpy_helper.from_array(np.array([-1]), _LAST_AXIS)
        parts = ("int8", "steps", "scale", "scales")
        rows, floats, scale, column = (f"{node.output[0]}_{part}" for part in parts)
        nodes += [
            helper.make_node("Gather", [whole, node.input[1]], [rows], name=node.name),
            helper.make_node(
                "Cast", [rows], [floats], name=f"{node.name}/Cast", to=TensorProto.FLOAT
            ),
            helper.make_node("Gather", [scales, node.input[1]], [scale], name=f"{node.name}/Scale"),
            helper.make_node(
                "Unsqueeze", [scale, _LAST_AXIS], [column], name=f"{node.name}/Unsqueeze"
            ),
            helper.make_node("Mul", [floats, column], node.output, name=f"{node.name}/Mul"),
        ]
    used = {name for node in nodes for name in node.input}
    replace_nodes(model.graph, nodes)
    replace_initializers(model.graph, [t for name, t in weights.items() if name in used])


def _is_table(tensor: TensorProto) -> bool:
    return tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
