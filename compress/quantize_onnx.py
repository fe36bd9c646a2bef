"""From an FP32 ONNX file to an INT8 one, with a count of what was really converted.

A recipe that quantizes nothing says nothing: so the weights that are still float afterwards are
counted, whatever the recipe, and a file that did not shrink is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compress.blockwise import blockwise
from compress.onnx_graph import MIN_ENGINE, replace_initializers, replace_nodes
from edgebert.errors import GateError, InputError

Convert = Callable[[ModelProto, Path, Collection[str]], None]


@dataclass(frozen=True)
class Recipe:
    """One way to make an INT8 file.

    Attributes:
        convert: Takes the prepared graph (see `prepare`), the target and the nodes left in FP32.
        about: One phrase for the manifest.
        batch_invariant: Whether a text's result is the same beside any batch-mates.
        min_engine: Oldest engine that runs the file.
    """

    convert: Convert
    about: str
    batch_invariant: bool
    min_engine: str


@dataclass(frozen=True)
class Converted:
    """What a recipe converted.

    Attributes:
        matmuls: Multiplications by a weight that are INT8 now.
        matmuls_total: All multiplications by a weight.
        gathers: Embedding look-ups that are INT8 now.
        gathers_total: All embedding look-ups.
        names: The nodes that are INT8 now.
        missed: The nodes that should be INT8 and are not.
        size_bytes: Of the file.
    """

    matmuls: int
    matmuls_total: int
    gathers: int
    gathers_total: int
    names: tuple[str, ...]
    missed: tuple[str, ...]
    size_bytes: int


def _dynamic(model: ModelProto, target: Path, exclude: Collection[str]) -> None:
    from onnxruntime.quantization import (  # type: ignore[import-untyped]
        QuantType,
        quantize_dynamic,
    )

    quantize_dynamic(
        model,
        target,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,  # per tensor lost 4 % of cosine on MiniLM, per channel 0.7 %
        weight_type=QuantType.QInt8,
        nodes_to_exclude=sorted(exclude),
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )


RECIPES: dict[str, Recipe] = {
    "dynamic": Recipe(
        convert=_dynamic,
        about="dynamic, weights int8 per channel, activations uint8 per tensor",
        batch_invariant=False,  # one activation scale a tensor: a long text changes its mates'
        min_engine=MIN_ENGINE,
    ),
    "blockwise": Recipe(
        convert=blockwise,
        about="weights int8 in blocks of 64, activations int8 per row and block",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
    ),
}
DEFAULT_RECIPE = "dynamic"


def get_recipe(name: str) -> Recipe:
    """Look a recipe up.

    Raises:
        InputError: No recipe has that name.
    """
    if name not in RECIPES:
        raise InputError(f"Unknown recipe {name!r}. Known recipes: {', '.join(RECIPES)}.")
    return RECIPES[name]


def quantize_onnx(
    source: Path, target: Path, *, recipe: str = DEFAULT_RECIPE, exclude: Collection[str] = ()
) -> Converted:
    """Write the INT8 form of an FP32 file.

    Args:
        source: The FP32 file.
        target: The INT8 file; removed again when it is refused.
        recipe: A key of `RECIPES`.
        exclude: Names of nodes (see `weight_nodes`) that stay in FP32.

    Raises:
        InputError: No such recipe, or ``exclude`` names a node that has no weight.
        GateError: Not every weight was converted, or the file is no smaller than ``source``.
    """
    converted = convert_onnx(source, target, recipe=recipe, exclude=exclude)
    reason = None
    before = source.stat().st_size
    expected = converted.matmuls_total + converted.gathers_total - len(set(exclude))
    if converted.missed:
        reason = (
            f"converted {len(converted.names)} of {expected} weights; "
            f"still in FP32: {', '.join(converted.missed[:5])}"
        )
    elif converted.size_bytes >= before:
        reason = f"made a file of {converted.size_bytes} bytes out of one of {before}"
    if reason is not None:
        target.unlink()
        raise GateError(f"INT8 recipe {recipe!r} {reason}. Try another recipe, or ship FP32 only.")
    return converted


def convert_onnx(
    source: Path, target: Path, *, recipe: str, exclude: Collection[str] = ()
) -> Converted:
    """Do as `quantize_onnx` does, but refuse nothing: for measuring parts of a model."""
    chosen = get_recipe(recipe)
    model = prepare(source)
    nodes = weight_nodes(model)
    unknown = set(exclude) - set(nodes)
    if unknown:
        raise InputError(f"exclude names nodes without a weight: {sorted(unknown)}.")
    chosen.convert(model, target, exclude)
    still_float = set(weight_nodes(onnx.load(target)))
    names = tuple(name for name in nodes if name not in still_float)
    return Converted(
        matmuls=sum(nodes[name].op_type == "MatMul" for name in names),
        matmuls_total=sum(node.op_type == "MatMul" for node in nodes.values()),
        gathers=sum(nodes[name].op_type == "Gather" for name in names),
        gathers_total=sum(node.op_type == "Gather" for node in nodes.values()),
        names=names,
        missed=tuple(sorted(still_float - set(exclude))),
        size_bytes=target.stat().st_size,
    )


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
