"""ONNX: from a torch model to an FP32 file, and from that to an INT8 one.

A recipe that quantizes nothing says nothing: so the nodes that take an INT8 weight afterwards are
counted, whatever the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from torch import nn

from compress.artifacts.blockwise import blockwise
from compress.artifacts.onnx_graph import (
    MIN_ENGINE,
    OPSET,
    export_onnx,
    replace_initializers,
    replace_nodes,
)
from compress.artifacts.quantizer import (
    Converted,
    Exported,
    Int8Recipe,
    check_exclude,
    get_recipe,
    group_parts,
)
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.types import Batch

# Where a node that multiplies by or looks up in an INT8 weight has it among its inputs.
_INT8_PLACES = {"MatMulInteger": 1, "MatMulNBits": 1, "Gather": 0}

Convert = Callable[[ModelProto, Path, Collection[str]], None]


@dataclass(frozen=True)
class OnnxRecipe(Int8Recipe):
    """One way to make an INT8 file.

    Attributes:
        convert: Takes the prepared graph (see `prepare`), the target and the nodes left in FP32.
    """

    convert: Convert


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


RECIPES: dict[str, OnnxRecipe] = {
    "dynamic": OnnxRecipe(
        convert=_dynamic,
        about="dynamic, weights int8 per channel, activations uint8 per tensor",
        batch_invariant=False,  # one activation scale a tensor: a long text changes its mates'
        min_engine=MIN_ENGINE,
    ),
    "blockwise": OnnxRecipe(
        convert=blockwise,
        about="weights int8 in blocks of 64, activations int8 per row and block",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
    ),
    "weights": OnnxRecipe(
        convert=partial(blockwise, activations=False),
        about="weights int8 in blocks of 64, activations in FP32",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
    ),
}


class OnnxExporter:
    """Makes ``onnx/model*.onnx``; see `compress.artifacts.quantizer.Exporter`."""

    backend = "onnx"
    fp32_path = "onnx/model.onnx"
    int8_path = "onnx/model_quantized.onnx"
    recipes: Mapping[str, Int8Recipe] = RECIPES

    def files(self, path: str) -> tuple[str, ...]:
        """See `Exporter.files`: one file holds all."""
        return (path,)

    def export_fp32(
        self,
        model: nn.Module,
        head: TaskHead,
        target: Path,
        *,
        max_length: int,  # noqa: ARG002  any length fits the file
    ) -> Exported:
        """See `Exporter.export_fp32`."""
        export_onnx(GraphModule(model, head), target)
        recipe = {"exporter": "torch.onnx legacy, eager attention", "opset": OPSET}
        return Exported(recipe, MIN_ENGINE)

    def parts(self, source: Path) -> dict[str, tuple[str, ...]]:
        """See `Exporter.parts`."""
        nodes = weight_nodes(prepare(source))
        return group_parts(
            (name, name, node.input[1 if node.op_type == "MatMul" else 0])
            for name, node in nodes.items()
        )

    def quantize(
        self,
        source: Path,
        target: Path,
        *,
        recipe: str,
        exclude: Collection[str] = (),
        calibration: Sequence[Batch] = (),  # noqa: ARG002  all recipes look at weights alone
    ) -> Converted:
        """See `Exporter.quantize`.

        Raises:
            InputError: No such recipe, or ``exclude`` names a node that has no weight.
        """
        model = prepare(source)
        nodes = weight_nodes(model)
        check_exclude(exclude, nodes)
        get_recipe(RECIPES, recipe).convert(model, target, exclude)
        done = int8_nodes(onnx.load(target))
        names = tuple(name for name in nodes if name in done)
        return Converted(
            matmuls=sum(nodes[name].op_type == "MatMul" for name in names),
            matmuls_total=sum(node.op_type == "MatMul" for node in nodes.values()),
            gathers=sum(nodes[name].op_type == "Gather" for name in names),
            gathers_total=sum(node.op_type == "Gather" for node in nodes.values()),
            names=names,
            missed=tuple(sorted(nodes.keys() - done - set(exclude))),
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


def int8_nodes(model: ModelProto) -> set[str]:
    """Name the nodes that take an INT8 weight of the model, as they were called in FP32."""
    weights = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8) and len(tensor.dims) > 1
    }
    return {
        node.name.removesuffix("_quant")  # the quantizer's mark
        for node in model.graph.node
        if node.op_type in _INT8_PLACES and node.input[_INT8_PLACES[node.op_type]] in weights
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
