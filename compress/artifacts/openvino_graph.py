"""From a torch model to OpenVINO's two files: the graph in ``.xml``, its weights in ``.bin``."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from compress.models.graph_module import ExportModule
from edgebert.errors import GateError, ModelError
from edgebert.formats.positions import max_positions
from runtimes.openvino import MAX_LENGTH_KEY, ov

MIN_ENGINE = "openvino 2024.4"  # the oldest that files of ours were run on
MAX_GROWTH = 1.1  # of the weights' file over the bytes of the parameters
_NODE_BYTES = 64  # what a node's own constants take at most; it counts in tiny models only
_BITS = {"f32": 32, "f16": 16, "bf16": 16, "i8": 8, "u8": 8, "i4": 4, "u4": 4}  # of a weight
# Between a stored weight and the node that uses it: what makes a float matrix of it.
_WEIGHT_WORK = ("Convert", "Multiply", "Subtract", "FakeQuantize", "Reshape", "Transpose")


@dataclass(frozen=True)
class WeightNode:
    """A MatMul or Gather that takes a weight of the model.

    Attributes:
        kind: ``MatMul`` or ``Gather``.
        weight: Name of the constant that holds the weight; the same for nodes that share it.
        bits: Of each of that constant's numbers.
    """

    kind: str
    weight: str
    bits: int

    @property
    def quantized(self) -> bool:
        """Whether they are whole numbers."""
        return self.bits <= 8


def export_openvino(module: ExportModule, path: Path, *, max_length: int) -> None:
    """Write a model as OpenVINO, FP32, with any batch and length, shared weights stored once.

    Args:
        module: The model with its head and named outputs.
        path: Of the ``.xml``; its folder exists.
        max_length: Longest input in tokens; with a position table it may be all that has room.

    Raises:
        ModelError: The converter doesn't know an operator of the model.
        GateError: The ``.bin`` is larger than the parameters: a shared weight was copied.
    """
    model = _convert(module)
    positions = max_positions(module.config.to_dict())
    model.set_rt_info(str(max(max_length, positions or 0)), MAX_LENGTH_KEY)
    save_ir(model, path)
    limit = MAX_GROWTH * 4 * sum(parameter.numel() for parameter in module.parameters())
    size_bytes = path.with_suffix(".bin").stat().st_size
    if size_bytes > limit + _NODE_BYTES * len(model.get_ops()):
        raise GateError(
            f"{path.with_suffix('.bin').name} has {size_bytes} bytes, more than {MAX_GROWTH} times "
            "the bytes of the parameters: the converter copied shared weights."
        )


def _convert(module: ExportModule) -> Any:  # the engine has no type stubs
    examples = module.examples()
    shapes = [ov.PartialShape([-1, -1, *example.shape[2:]]) for example in examples]
    kinds = [ov.Type.f32 if example.is_floating_point() else ov.Type.i64 for example in examples]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tracing; parity is measured afterwards
            model = ov.convert_model(
                module, example_input=examples, input=list(zip(shapes, kinds, strict=True))
            )
    except Exception as error:  # the converter's errors have no parent of their own
        name = type(getattr(module, "model", module)).__name__
        raise ModelError(
            f"OpenVINO can't hold {name}: {' '.join(str(error).split())} Leave this engine out "
            "with --backend."
        ) from error
    for port, name in zip(model.inputs, module.input_names, strict=True):
        port.get_tensor().set_names({name})
        port.get_node().set_friendly_name(name)
    for port, name in zip(model.outputs, module.output_names, strict=True):
        port.get_tensor().set_names({name})
    return model


def read_ir(path: Path) -> Any:
    """Read a model; its weights are in memory, so that the file may be replaced."""
    weights = np.fromfile(path.with_suffix(".bin"), dtype=np.uint8)
    return ov.Core().read_model(path.read_bytes(), ov.Tensor(weights))


def save_ir(model: Any, path: Path) -> None:
    """Write a model as it is, weights in the precision that they have; equal models, equal files.

    Nodes without a name of their own get one from a counter of the process: they are named anew.
    """
    model.set_friendly_name("model")
    seen: Counter[str] = Counter()
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if re.fullmatch(rf"({kind}[_.])?\d+", node.get_friendly_name()):
            seen[kind] += 1
            node.set_friendly_name(f"{kind}.{seen[kind]}")
    ov.save_model(model, path, compress_to_fp16=False)


def ir_files(path: str) -> tuple[str, str]:
    """List the files of a model by its ``.xml``."""
    return path, f"{path.removesuffix('.xml')}.bin"


def weight_nodes(model: Any) -> dict[str, WeightNode]:
    """Find the MatMul and Gather nodes that take a matrix of the model's weights, by name."""
    return dict(_weight_nodes(model))


def attention_products(model: Any) -> list[str]:
    """Name the nodes that multiply one activation by another."""
    return [
        node.get_friendly_name()
        for node in model.get_ordered_ops()
        if node.get_type_name() == "ScaledDotProductAttention"
        or (node.get_type_name() == "MatMul" and _weight(node.input_value(1).get_node()) is None)
    ]


def _weight_nodes(model: Any) -> Iterator[tuple[str, WeightNode]]:
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind not in ("MatMul", "Gather"):
            continue
        weight = _weight(node.input_value(1 if kind == "MatMul" else 0).get_node())
        if weight is not None:
            bits = _BITS[_element(weight)]
            yield node.get_friendly_name(), WeightNode(kind, weight.get_friendly_name(), bits)


def _weight(node: Any) -> Any:
    """Follow a node's input back to the matrix that it is made of; None when it is no weight."""
    while node.get_type_name() in _WEIGHT_WORK:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant" or _element(node) not in _BITS:
        return None
    return node if len(node.get_output_shape(0)) >= 2 else None


def _element(node: Any) -> str:
    name: str = node.get_element_type().get_type_name()
    return name
