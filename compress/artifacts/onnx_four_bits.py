"""INT4 for ONNX: products by weights of 4 bits, tables of 8.

The scales are stored in 16 bits, which makes 4.5 bits a weight, and turned into the floats that
``MatMulNBits`` asks for when the file is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compress.artifacts.blockwise import (
    block_product,
    eight_bit_product,
    is_product,
    replace_products,
)
from compress.artifacts.calibration import linked
from compress.artifacts.four_bits import BLOCK_SIZE, FourBits, Linked, round_weights
from compress.artifacts.observe import stream, watch
from compress.artifacts.onnx_tables import quantize_tables
from edgebert.types import Batch

# Activations become INT8, row by row and block by block: MiniLM's mean cosine is the same to 0.0002
# as with activations in FP32 (level 1).
_ACCURACY_LEVEL = 4


def round_onnx(model: ModelProto, texts: Sequence[Batch]) -> dict[str, FourBits]:
    """Round the matrices of a prepared graph to 4 bits, by their name."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if is_product(node, weights)]
    groups = [
        Linked(
            tuple(sorted(inputs)),
            {name: numpy_helper.to_array(weights[name]).T for name in sorted(matrices)},
        )
        for inputs, matrices in linked((node.input[0], node.input[1]) for node in products)
    ]
    return round_weights(groups, lambda names: stream(watch(model, names), texts))


def write_four_bits(
    model: ModelProto, target: Path, exclude: Collection[str], rounded: Mapping[str, FourBits]
) -> None:
    """Write the graph with its matrix products in 4 bits and its embedding tables in 8.

    Args:
        model: As from `compress.artifacts.onnx_weights.prepare`; changed in place.
        target: The file.
        exclude: Names of nodes whose products have 8 bits.
        rounded: Weights by name.
    """
    quantize_tables(model, ())
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if not is_product(node, weights):
            nodes.append(node)
        elif node.name in exclude:
            nodes.append(eight_bit_product(node, weights))
        else:
            nodes += _product(node, weights, rounded)
    replace_products(model, nodes, weights)
    target.write_bytes(model.SerializeToString())


def _product(
    node: NodeProto, weights: dict[str, TensorProto], rounded: Mapping[str, FourBits]
) -> list[NodeProto]:
    name, shape = node.input[1], tuple(weights[node.input[1]].dims)
    packed, stored, scales = (f"{name}_{part}" for part in ("int4", "half_scales", "int4_scales"))
    nodes = []
    if packed not in weights:  # a shared weight is packed once
        weights[packed] = numpy_helper.from_array(rounded[name].packed(), packed)
        weights[stored] = numpy_helper.from_array(rounded[name].scales, stored)
        cast = helper.make_node(
            "Cast", [stored], [scales], name=f"{scales}/Cast", to=TensorProto.FLOAT
        )
        nodes.append(cast)
    form = (4, BLOCK_SIZE, _ACCURACY_LEVEL)
    return [*nodes, block_product(node, packed, scales, shape, form)]


def four_bit_nodes(model: ModelProto) -> set[str]:
    """Name the nodes that multiply by a weight of 4 bits that is in the model."""
    there = {tensor.name for tensor in model.graph.initializer}
    return {
        node.name
        for node in model.graph.node
        if node.op_type == "MatMulNBits"
        and node.input[1] in there
        and any(one.name == "bits" and one.i == 4 for one in node.attribute)
    }
