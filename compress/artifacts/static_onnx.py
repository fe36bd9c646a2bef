"""Static INT8 for ONNX: scales of activations are constants of the file, learnt by calibration.

Products of activations by activations, in the attention, stay in FP32: with them in INT8, as other
quantizers have it, MiniLM's mean cosine was 0.33.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compress.artifacts.histogram import Histogram
from compress.artifacts.observe import Observed
from compress.artifacts.onnx_graph import replace_initializers, replace_nodes
from compress.artifacts.onnx_tables import quantize_tables
from compress.artifacts.onnx_weights import uses_of_weights
from edgebert.types import FloatArray

Ranges = Callable[[Histogram], tuple[float, float]]
_ACTIVATION_STEPS = 255


def write_static(
    model: ModelProto,
    target: Path,
    exclude: Collection[str],
    observed: Observed,
    *,
    ranges: Ranges,
    weight_steps: int = 127,
) -> None:
    """Write the graph with its matrix products and embedding tables in INT8.

    Args:
        model: As from `compress.artifacts.quantize_onnx.prepare`; changed in place.
        target: The file.
        exclude: Names of nodes that stay in FP32.
        observed: Of the same graph.
        ranges: Chooses what 8 bits span, out of what was seen.
        weight_steps: Of weights, to each side. With 64 two products of 8 bits fit 16, in which
            processors without VNNI add them up, unless they are told to take their time.
    """
    quantize_tables(model, exclude)
    graph = _StaticGraph(model, observed, ranges, weight_steps)
    for node in model.graph.node:
        graph.add(node, keep=node.name in exclude)
    used = {name for node in graph.nodes for name in node.input}
    replace_nodes(model.graph, graph.nodes)
    replace_initializers(model.graph, [t for name, t in graph.weights.items() if name in used])
    target.write_bytes(model.SerializeToString())


class _StaticGraph:
    """The nodes of the new graph as they are put together."""

    def __init__(
        self, model: ModelProto, observed: Observed, ranges: Ranges, weight_steps: int
    ) -> None:
        self.weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self.observed, self.ranges, self.weight_steps = observed, ranges, weight_steps
        self.uses = uses_of_weights(model)
        self.nodes: list[NodeProto] = []
        self.made: set[str] = set()

    def add(self, node: NodeProto, *, keep: bool) -> None:
        """Take over a node, a product by a weight with both sides quantized unless it is kept."""
        weight = self.weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if weight is None or len(weight.dims) != 2 or keep:
            self.nodes.append(node)
            return
        inputs = [self._activation(node.input[0]), self._weight(node.input[0], weight)]
        self.nodes.append(helper.make_node("MatMul", inputs, node.output, name=node.name))

    def _activation(self, name: str) -> str:
        """Smooth and quantize a product's input, once for all that take it; give its new name."""
        through = f"{name}_through_uint8"
        if through not in self.made:
            self.made.add(through)
            scale, zero = scale_of(*self.ranges(self.observed.histograms[name]))
            inverse = self._constant(
                f"{name}_smoothing", np.reciprocal(self.observed.smoothing[name])
            )
            steps = [
                self._constant(f"{name}_scale", np.float32(scale)),
                self._constant(f"{name}_zero", np.uint8(zero)),
            ]
            smooth, whole = f"{name}_smooth", f"{name}_uint8"
            self.nodes += [
                helper.make_node("Mul", [name, inverse], [smooth], name=f"{name}/Mul"),
                helper.make_node("QuantizeLinear", [smooth, *steps], [whole], name=f"{name}/Q"),
                helper.make_node("DequantizeLinear", [whole, *steps], [through], name=f"{name}/DQ"),
            ]
        return through

    def _weight(self, taker: str, weight: TensorProto) -> str:
        """Quantize a weight, column by column; a shared one once, as its takers' factors agree."""
        through = f"{weight.name}_through_int8"
        if through not in self.made:
            self.made.add(through)
            matrix = numpy_helper.to_array(weight) * self.observed.smoothing[taker][:, None]
            scales = np.abs(matrix).max(axis=0) / self.weight_steps  # [outer]
            scales = np.where(scales == 0, 1.0, scales).astype(np.float32)
            # Where no VNNI is, the engine makes signed weights unsigned, and fails on shared ones.
            kind, zero = (np.uint8, 128) if self.uses[weight.name] > 1 else (np.int8, 0)
            whole = (np.rint(matrix / scales) + zero).astype(kind)
            inputs = [
                self._constant(f"{weight.name}_int8", whole),
                self._constant(f"{weight.name}_scales", scales),
                self._constant(f"{weight.name}_zeros", np.full(len(scales), zero, dtype=kind)),
            ]
            name = f"{weight.name}/DQ"
            self.nodes.append(
                helper.make_node("DequantizeLinear", inputs, [through], name=name, axis=1)
            )
        return through

    def _constant(self, name: str, values: FloatArray | np.generic) -> str:
        self.weights[name] = numpy_helper.from_array(np.asarray(values), name)
        return name


def scale_of(low: float, high: float) -> tuple[float, int]:
    """Give the scale and the zero point of unsigned 8 bits that span a range and 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / _ACTIVATION_STEPS or 1.0
    return scale, round(-low / scale)
