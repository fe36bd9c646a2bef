"""The nodes of an ONNX graph that take a weight: found by name, before and after a recipe.

A recipe that quantizes nothing says nothing: so the nodes that take an INT8 weight afterwards are
counted, whatever the recipe.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compress.artifacts.onnx_graph import replace_initializers, replace_nodes

# Where a node that multiplies by or looks up in an INT8 weight has it among its inputs.
_INT8_PLACES = {"MatMulInteger": 1, "MatMulNBits": 1, "Gather": 0}


def prepare(source: Path) -> ModelProto:
    """Load an FP32 file in the form that recipes take: every matrix product is a MatMul.

    A Gemm becomes MatMul and Add under the same name, and the transpose of a weight a weight of its
    own, so that each can be found, left out and counted by name.
    """
    model = onnx.load(source)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in weights and _is_plain(node):
            matrix = numpy_helper.to_array(weights[node.input[0]]).T
            weights[node.output[0]] = _tensor(matrix, node.output[0])
        elif node.op_type == "Gemm" and node.input[1] in weights and _is_linear(node):
            nodes.extend(_matmul_add(node, weights))
        else:
            nodes.append(node)
    used = {name for node in nodes for name in node.input}
    replace_nodes(model.graph, nodes)
    replace_initializers(model.graph, [t for name, t in weights.items() if name in used])
    # The quantizer asks for this mark of its own preparation; what it would do was done above.
    helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    return model


def weight_nodes(model: ModelProto) -> dict[str, NodeProto]:
    """Find the MatMul and Gather nodes that take a float weight of the model, by name."""
    floats = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
    }
    place = {"MatMul": 1, "Gather": 0}
    return {
        node.name: node
        for node in model.graph.node
        if node.op_type in place and node.input[place[node.op_type]] in floats
    }


def uses_of_weights(model: ModelProto) -> Counter[str]:
    """Count the matrix products that take each weight, by its name."""
    return Counter(
        node.input[1] for node in weight_nodes(model).values() if node.op_type == "MatMul"
    )


def int8_nodes(model: ModelProto) -> set[str]:
    """Name the nodes that take an INT8 weight of the model, as they were called in FP32."""
    weights = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8) and len(tensor.dims) > 1
    }
    return _qdq_products(model) | {
        node.name.removesuffix("_quant")  # the quantizer's mark
        for node in model.graph.node
        if node.op_type in _INT8_PLACES and node.input[_INT8_PLACES[node.op_type]] in weights
    }


def _qdq_products(model: ModelProto) -> set[str]:
    """Name the MatMul nodes that take an INT8 weight and a quantized activation."""
    whole = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8) and len(tensor.dims) > 1
    }
    maker = {output: node for node in model.graph.node for output in node.output}

    def source(name: str) -> str:
        """Give what is turned back to floats under a name; "" for what isn't."""
        node = maker.get(name)
        return node.input[0] if node is not None and node.op_type == "DequantizeLinear" else ""

    return {
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul"
        and source(node.input[1]) in whole
        and (origin := maker.get(source(node.input[0]))) is not None
        and origin.op_type == "QuantizeLinear"
    }


def _matmul_add(node: NodeProto, weights: dict[str, TensorProto]) -> list[NodeProto]:
    weight = node.input[1]
    if _attribute(node, "transB", 0):
        turned = f"{weight}_transposed"
        weights[turned] = _tensor(numpy_helper.to_array(weights[weight]).T, turned)
        weight = turned
    if len(node.input) < 3:
        return [helper.make_node("MatMul", [node.input[0], weight], node.output, name=node.name)]
    product = f"{node.output[0]}_product"
    return [
        helper.make_node("MatMul", [node.input[0], weight], [product], name=node.name),
        helper.make_node("Add", [product, node.input[2]], node.output, name=f"{node.name}/Add"),
    ]


def _tensor(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]], name: str) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values), name)


def _attribute(node: NodeProto, name: str, default: float) -> float:
    for attribute in node.attribute:
        if attribute.name == name:
            value: float = helper.get_attribute_value(attribute)
            return value
    return default


def _is_linear(node: NodeProto) -> bool:
    scales = (_attribute(node, "alpha", 1.0), _attribute(node, "beta", 1.0))
    return scales == (1.0, 1.0) and not _attribute(node, "transA", 0)


def _is_plain(node: NodeProto) -> bool:
    return [list(a.ints) for a in node.attribute if a.name == "perm"] == [[1, 0]]
