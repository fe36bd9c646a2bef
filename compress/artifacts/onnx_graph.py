"""From a torch model to one ONNX file, each weight in it once.

The legacy exporter with eager attention makes the graph that fuses and quantizes best, and the only
one that is right for all families we export; the newer exporter takes 4 to 10 times as long.
"""

from __future__ import annotations

import copy
import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch.jit._trace import TracerWarning

from compress.models.graph_module import ExportModule, GraphModule
from compress.models.task_head import HIDDEN
from edgebert.errors import GateError, ModelError

OPSET = 17  # the first with LayerNormalization as one node
MIN_ENGINE = "onnxruntime 1.15"  # the oldest that files of ours were run on
MAX_FILE_BYTES = 2**31 - 2**20  # protobuf's limit on one message, less room for the nodes
MAX_GROWTH = 1.1  # of the file over the bytes of the parameters
_NODE_BYTES = 1024  # what a node's names and attributes take at most; it counts in tiny models only


@dataclass(frozen=True)
class ExportedGraph:
    """An ONNX file as written.

    Attributes:
        path: Of the file.
        inputs: Names of the inputs, int64 ``[batch, seq]`` each.
        outputs: Names of the outputs, in the file's order.
        size_bytes: Of the file.
        parameter_bytes: Of the model's parameters in FP32, shared ones counted once.
    """

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    size_bytes: int
    parameter_bytes: int


def export_onnx(module: ExportModule, path: Path) -> ExportedGraph:
    """Write a model as ONNX, FP32, with any batch and length, shared weights stored once.

    Args:
        module: The model with its head and named outputs.
        path: Of the file; its folder exists.

    Raises:
        ModelError: The weights don't fit into one file of less than 2 GB.
        GateError: The file is larger than the parameters: a shared weight was copied.
    """
    parameter_bytes = 4 * sum(parameter.numel() for parameter in module.parameters())
    if parameter_bytes > MAX_FILE_BYTES:
        raise ModelError(
            f"The model has {parameter_bytes / 1e9:.1f} GB of weights; one ONNX file holds up to "
            f"{MAX_FILE_BYTES / 1e9:.1f} GB. Export a smaller student."
        )
    graph = _trace(module)
    fold_identities(graph)
    share_initializers(graph)
    _put_first(graph, HIDDEN)
    path.write_bytes(graph.SerializeToString())
    return check_growth(graph, path, parameter_bytes=parameter_bytes)


def check_growth(model: ModelProto, path: Path, *, parameter_bytes: int) -> ExportedGraph:
    """Make sure that a written file holds each weight once.

    Raises:
        GateError: It is larger than the parameters.
    """
    size_bytes = path.stat().st_size
    if size_bytes > MAX_GROWTH * parameter_bytes + _NODE_BYTES * len(model.graph.node):
        raise GateError(
            f"{path.name} has {size_bytes} bytes, more than {MAX_GROWTH} times the "
            f"{parameter_bytes} bytes of the parameters: the exporter copied shared weights."
        )
    inputs, outputs = (
        tuple(value.name for value in values) for values in (model.graph.input, model.graph.output)
    )
    return ExportedGraph(path, inputs, outputs, size_bytes, parameter_bytes)


def _trace(module: ExportModule) -> ModelProto:
    token_axes, examples = {0: "batch", 1: "seq"}, module.examples()
    choices = isinstance(module, GraphModule) and module.head.task == "multiple-choice"
    if choices:  # the form that every reader of such a file expects
        token_axes = {0: "batch", 1: "choices", 2: "seq"}
        examples = tuple(example[:, None].repeat(1, 3, 1) for example in examples)
    axes = dict.fromkeys(module.input_names, token_axes)
    for name in module.output_names:
        axes[name] = token_axes if module.has_token_axis(name) else {0: "batch"}
        if choices:
            axes[name] = {0: "batch", 1: "choices"}
    stream: Any = io.BytesIO()  # the annotation of export() forgets that it takes streams
    with torch.no_grad(), _quiet_exporter():
        torch.onnx.export(
            module,
            examples,
            stream,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(module.input_names),
            output_names=list(module.output_names),
            dynamic_axes=axes,
        )
    return onnx.load_model_from_string(stream.getvalue())


def _put_first(model: ModelProto, name: str) -> None:
    """Move an output to the front, if it is there: some readers take the first, not the name."""
    outputs = sorted(map(copy.deepcopy, model.graph.output), key=lambda value: value.name != name)
    model.graph.ClearField("output")
    model.graph.output.extend(outputs)


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Drop the exporter's notes on itself: each is known, and parity is measured afterwards."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=TracerWarning)
        for message in ("Exporting aten::index", "Constant folding", "To copy construct"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def fold_identities(model: ModelProto) -> None:
    """Take out Identity nodes, so that weights shared between layers are seen as such.

    Quantizers skip a weight behind an Identity: of ALBERT's 37 matrices they converted 7.
    """
    graph = model.graph
    outputs = {value.name for value in graph.output}
    source: dict[str, str] = {}
    kept = []
    for node in graph.node:
        if node.op_type == "Identity" and node.output[0] not in outputs:
            source[node.output[0]] = source.get(node.input[0], node.input[0])
        else:
            kept.append(node)
    for node in kept:
        for index, name in enumerate(node.input):
            node.input[index] = source.get(name, name)
    replace_nodes(graph, kept)


def share_initializers(model: ModelProto) -> None:
    """Keep one copy of equal weights, and of a weight and its transpose.

    The exporter folds the transpose of a tied output layer into a second table; a Transpose node in
    its place costs nothing, as the engine folds it again when it loads.
    """
    graph = model.graph
    seen: dict[str, str] = {}
    renamed: dict[str, str] = {}
    kept, transposes = [], []
    for tensor in graph.initializer:
        key = _content(tensor)
        same = seen.setdefault(key, tensor.name)
        if same != tensor.name:
            renamed[tensor.name] = same
            continue
        mirrored = seen.get(_content(tensor, transpose=True)) if len(tensor.dims) == 2 else None
        if mirrored is not None and mirrored != tensor.name:
            transposes.append(transpose_node(mirrored, tensor.name))
            continue
        kept.append(tensor)
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
    replace_nodes(graph, [*transposes, *graph.node])
    replace_initializers(graph, kept)


def transpose_node(source: str, output: str) -> onnx.NodeProto:
    """Make the node that turns a matrix into its transpose."""
    return helper.make_node("Transpose", [source], [output], name=f"{output}/T", perm=[1, 0])


def replace_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    """Put ``nodes`` in the place of the graph's."""
    copies = [copy.deepcopy(node) for node in nodes]
    graph.ClearField("node")
    graph.node.extend(copies)


def replace_initializers(graph: onnx.GraphProto, tensors: list[TensorProto]) -> None:
    """Put ``tensors`` in the place of the graph's initializers."""
    copies = [copy.deepcopy(tensor) for tensor in tensors]
    graph.ClearField("initializer")
    graph.initializer.extend(copies)


def _content(tensor: TensorProto, *, transpose: bool = False) -> str:
    values = numpy_helper.to_array(tensor)
    values = values.T if transpose else values
    digest = hashlib.sha256(values.tobytes()).hexdigest()  # tobytes is row-major whatever the order
    return f"{tensor.data_type}:{values.shape}:{digest}"
