"""INT4 for OpenVINO: weights of 4 bits in the form that the engine multiplies by as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from compress.artifacts.calibration import linked, single_texts
from compress.artifacts.four_bits import FourBits, Linked, round_weights
from compress.artifacts.openvino_graph import WeightNode, weight_nodes
from edgebert.types import Batch, FloatArray
from runtimes.openvino import ov


def four_bit_products(
    nodes: Mapping[str, WeightNode], exclude: Collection[str] = ()
) -> dict[str, WeightNode]:
    """Find the products whose weight can have 4 bits: one that no table look-up shares.

    Args:
        nodes: All that take a weight, of an FP32 model.
        exclude: Names of nodes that are left out, with all that share their weight.
    """
    other = {one.weight for name, one in nodes.items() if one.kind == "Gather" or name in exclude}
    return {name: one for name, one in nodes.items() if one.weight not in other}


def round_openvino(model: Any, texts: Sequence[Batch]) -> dict[str, FourBits]:
    """Round the matrices of a model to 4 bits, by their constant's name."""
    by_name = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    products = four_bit_products(weight_nodes(model))
    ports = {name: by_name[name].input_value(0) for name in products}
    inputs = {
        name: f"{port.get_node().get_friendly_name()}:{port.get_index()}"
        for name, port in ports.items()
    }
    found = {inputs[name]: port for name, port in ports.items()}
    groups = [
        Linked(tuple(sorted(names)), {weight: by_name[weight].data for weight in sorted(weights)})
        for names, weights in linked((inputs[name], one.weight) for name, one in products.items())
    ]
    return round_weights(
        groups, lambda names: _look(model, {n: found[n] for n in names}, texts), whole_blocks=True
    )


def _look(
    model: Any, ports: Mapping[str, Any], texts: Sequence[Batch]
) -> Iterator[tuple[str, FloatArray]]:
    """Run a model on texts and give some of its inner values, float32 ``[1, tokens, inner]``."""
    watched = ov.Model(list(ports.values()), model.get_parameters())
    compiled = ov.Core().compile_model(watched, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = [port.get_any_name() for port in model.inputs]
    for text in single_texts(texts):
        values = compiled([getattr(text, name) for name in names])
        for place, name in enumerate(ports):
            yield name, values[place]


def put_four_bits(
    model: Any, products: Mapping[str, WeightNode], rounded: Mapping[str, FourBits]
) -> None:
    """Give products weights of 4 bits, in place: each constant becomes a chain that unpacks it."""
    weights = {one.weight for one in products.values()}
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        if name in weights:
            takers = list(node.output(0).get_target_inputs())
            unpacked = _unpack(rounded[name], name)
            for taker in takers:
                taker.replace_source_output(unpacked.output(0))
    model.validate_nodes_and_infer_types()


def _unpack(bits: FourBits, name: str) -> Any:
    from openvino import opset13 as ops  # type: ignore[import-untyped]

    outer, blocks, size = bits.steps.shape
    packed = ov.Tensor(ov.Type.i4, ov.Shape([outer, blocks, size]))  # of its own memory
    packed.data.view(np.uint8)[:] = bits.packed(signed=True).ravel()
    steps = ops.constant(packed)
    steps.set_friendly_name(name)
    scales = ops.constant(bits.scales[:, :, None])
    values = ops.multiply(ops.convert(steps, "f16"), scales)
    whole = ops.reshape(values, np.array([outer, blocks * size]), special_zero=False)
    return ops.convert(whole, "f32")
