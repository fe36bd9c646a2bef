"""INT4 for ONNX: products by weights of 4 bits, tables of 8, or that of the words of 4.

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
from compress.artifacts.four_bits import (
    BLOCK_SIZE,
    FourBits,
    Linked,
    round_table,
    round_weights,
)
from compress.artifacts.observe import stream, watch
from compress.artifacts.onnx_tables import quantize_tables
from compress.artifacts.onnx_weights import weight_nodes
from edgebert.types import Batch

# Activations become INT8, row by row and block by block: MiniLM's mean cosine is the same to 0.0002
# as with activations in FP32 (level 1).
_ACCURACY_LEVEL = 4
_RESHAPING = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")  # of the same numbers


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
    model: ModelProto,
    target: Path,
    exclude: Collection[str],
    rounded: Mapping[str, FourBits],
    *,
    table: bool = False,
) -> None:
    """Write the graph with its matrix products in 4 bits and its embedding tables in 8.

    Args:
        model: As from `compress.artifacts.onnx_weights.prepare`; changed in place.
        target: The file.
        exclude: Names of nodes whose products have 8 bits.
        rounded: Weights by name.
        table: Whether the table of words has 4 bits too.
    """
    if table:
        _quantize_words(model, exclude)
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


def _quantize_words(model: ModelProto, exclude: Collection[str]) -> None:
    """Look words up in a table of 4 bits, unless it is left out; other tables have few rows."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    maker = {output: node for node in model.graph.node for output in node.output}

    def is_words(node: NodeProto) -> bool:
        source = node.input[1]
        while source in maker and maker[source].op_type in _RESHAPING:
            source = maker[source].input[0]
        even = weights[node.input[0]].dims[1] % 2 == 0  # two numbers share a byte
        return source == "input_ids" and even and node.name not in exclude

    looks = [node for node in weight_nodes(model).values() if node.op_type == "Gather"]
    chosen = {node.name for node in looks if is_words(node)}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        nodes += _look_up(node, weights) if node.name in chosen else [node]
    replace_products(model, nodes, weights)


def _look_up(node: NodeProto, weights: dict[str, TensorProto]) -> list[NodeProto]:
    name = node.input[0]
    packed, stored, scales = (f"{name}_{part}" for part in ("int4", "half_scales", "int4_scales"))
    nodes = []
    if packed not in weights:
        table = numpy_helper.to_array(weights[name])
        bits = round_table(table)
        rows = bits.packed(signed=True).reshape(len(table), -1)[:, : table.shape[1] // 2]
        weights[packed] = helper.make_tensor(
            packed, TensorProto.INT4, table.shape, rows.tobytes(), raw=True
        )
        weights[stored] = numpy_helper.from_array(bits.scales, stored)
        nodes.append(_widened(stored, scales))
    look = helper.make_node(
        "GatherBlockQuantized",
        [packed, node.input[1], scales],
        node.output,
        name=node.name,
        domain="com.microsoft",
        gather_axis=0,
        quantize_axis=1,
        block_size=BLOCK_SIZE,
    )
    return [*nodes, look]


def _widened(stored: str, scales: str) -> NodeProto:
    return helper.make_node("Cast", [stored], [scales], name=f"{scales}/Cast", to=TensorProto.FLOAT)


def _product(
    node: NodeProto, weights: dict[str, TensorProto], rounded: Mapping[str, FourBits]
) -> list[NodeProto]:
    name, shape = node.input[1], tuple(weights[node.input[1]].dims)
    packed, stored, scales = (f"{name}_{part}" for part in ("int4", "half_scales", "int4_scales"))
    nodes = []
    if packed not in weights:  # a shared weight is packed once
        weights[packed] = numpy_helper.from_array(rounded[name].packed(), packed)
        weights[stored] = numpy_helper.from_array(rounded[name].scales, stored)
        nodes.append(_widened(stored, scales))
    form = (4, BLOCK_SIZE, _ACCURACY_LEVEL)
    return [*nodes, block_product(node, packed, scales, shape, form)]


def four_bit_nodes(model: ModelProto) -> set[str]:
    """Name the nodes that take a weight of 4 bits that is in the model."""
    there = {tensor.name: tensor for tensor in model.graph.initializer}
    products = {
        node.name
        for node in model.graph.node
        if node.op_type == "MatMulNBits"
        and node.input[1] in there
        and any(one.name == "bits" and one.i == 4 for one in node.attribute)
    }
    return products | {
        node.name
        for node in model.graph.node
        if node.op_type == "GatherBlockQuantized"
        and node.input[0] in there
        and there[node.input[0]].data_type == TensorProto.INT4
    }
