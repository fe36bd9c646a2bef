"""INT8 in blocks: each block of weights has a scale of its own, and so may rows of activations.

ONNX Runtime's ``MatMulNBits`` with 8 bits and ``accuracy_level`` 4 quantizes activations row by row
and block by block, with level 1 it computes in FP32: so a text's result doesn't depend on its
batch-mates. The layout of its weights is that of the operator's specification (com.microsoft, ONNX
Runtime contrib operators).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compress.artifacts.onnx_graph import replace_initializers, replace_nodes
from compress.artifacts.onnx_tables import quantize_tables

BLOCK_SIZE = 64  # 32 gave a cosine of 0.9994 on MiniLM, 64 0.9991, 128 0.9988, in rising speed
_ZERO_POINT = 128  # of unsigned 8-bit weights, the operator's default
_FP32_ACTIVATIONS, _INT8_ACTIVATIONS = 1, 4  # the operator's accuracy_level

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def blockwise(
    model: ModelProto, target: Path, exclude: Collection[str], *, activations: bool = True
) -> None:
    """Write the graph with its matrix products and embedding tables in INT8.

    Args:
        model: As from `compress.artifacts.quantize_onnx.prepare`; changed in place.
        target: The file.
        exclude: Names of nodes that stay in FP32.
        activations: Whether they are multiplied in INT8 too, or the weights turned back to FP32.
    """
    _replace_products(model, exclude, _INT8_ACTIVATIONS if activations else _FP32_ACTIVATIONS)
    quantize_tables(model, exclude)
    target.write_bytes(model.SerializeToString())


def _replace_products(model: ModelProto, exclude: Collection[str], accuracy_level: int) -> None:
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = [
        eight_bit_product(node, weights, accuracy_level=accuracy_level)
        if is_product(node, weights) and node.name not in exclude
        else node
        for node in model.graph.node
    ]
    replace_products(model, nodes, weights)


def is_product(node: NodeProto, weights: Mapping[str, TensorProto]) -> bool:
    """Tell whether a node multiplies by a matrix of the model."""
    weight = weights.get(node.input[1]) if node.op_type == "MatMul" else None
    return weight is not None and len(weight.dims) == 2


def eight_bit_product(
    node: NodeProto, weights: dict[str, TensorProto], *, accuracy_level: int = _FP32_ACTIVATIONS
) -> NodeProto:
    """Make the form of a product in which its weight has 8 bits, which is added to the others."""
    weight = weights[node.input[1]]
    packed, scales = f"{weight.name}_int8", f"{weight.name}_scales"
    if packed not in weights:  # a shared weight is packed once
        blocks, factors = quantize_blocks(numpy_helper.to_array(weight))
        weights[packed] = numpy_helper.from_array(blocks, packed)
        weights[scales] = numpy_helper.from_array(factors, scales)
    shape = tuple(weight.dims)
    return block_product(node, packed, scales, shape, (8, BLOCK_SIZE, accuracy_level))


def block_product(
    node: NodeProto, packed: str, scales: str, shape: tuple[int, ...], form: tuple[int, int, int]
) -> NodeProto:
    """Make a product's form with a weight in blocks.

    Args:
        node: The MatMul.
        packed: Name of the blocks.
        scales: Name of their scales.
        shape: Of the weight, ``[inner, outer]``.
        form: Bits, the size of a block, and the operator's ``accuracy_level``.
    """
    bits, block_size, accuracy_level = form
    return helper.make_node(
        "MatMulNBits",
        [node.input[0], packed, scales],
        node.output,
        name=node.name,
        domain="com.microsoft",
        K=shape[0],
        N=shape[1],
        bits=bits,
        block_size=block_size,
        accuracy_level=accuracy_level,
    )


def replace_products(
    model: ModelProto, nodes: list[NodeProto], weights: Mapping[str, TensorProto]
) -> None:
    """Put other nodes into a model, with those of the weights that they use."""
    used = {name for node in nodes for name in node.input}
    replace_nodes(model.graph, nodes)
    replace_initializers(model.graph, [t for name, t in weights.items() if name in used])
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def quantize_blocks(
    weight: Array,
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], Array]:
    """Quantize a matrix in blocks along its inner dimension.

    Args:
        weight: float32 ``[inner, outer]``.

    Returns:
        uint8 ``[outer, blocks, BLOCK_SIZE]``, 128 for zero, and float32 scales
        ``[outer, blocks]``.
    """
    inner, outer = weight.shape
    blocks = -(-inner // BLOCK_SIZE)
    padded = np.zeros((outer, blocks * BLOCK_SIZE), dtype=np.float32)
    padded[:, :inner] = weight.T
    parts = padded.reshape(outer, blocks, BLOCK_SIZE)
    scales = np.abs(parts).max(axis=2) / 127
    divisors = np.where(scales == 0, 1.0, scales)[:, :, None]
    whole = np.clip(np.rint(parts / divisors), -127, 127) + _ZERO_POINT
    return whole.astype(np.uint8), scales.astype(np.float32)
