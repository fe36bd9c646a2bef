"""What goes into an ONNX model's matrix products, learnt from real texts one at a time.

Two passes: the first finds how large each channel gets, from which smoothing is made; the second
counts the smoothed numbers. Of the activations themselves only one text's are held.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compress.artifacts.calibration import linked, single_texts
from compress.artifacts.histogram import Histogram
from edgebert.types import Batch, FloatArray
from runtimes.names import feed

logger = logging.getLogger(__name__)

# Of the range that much is moved from activations to weights (Xiao et al., 2022, who took 0.5).
# MiniLM's cosines on 100 texts: mean 0.986 with 0.5, 0.996 with 0.65, 0.997 with 0.75.
SMOOTHING = 0.75


@dataclass(frozen=True)
class Observed:
    """What calibration found, by the name of a product's input.

    Attributes:
        smoothing: What each channel is divided by and its row of the weights multiplied with,
            float32 ``[inner]``. Inputs that share a weight have the same.
        histograms: Of the numbers after that.
    """

    smoothing: dict[str, FloatArray]
    histograms: dict[str, Histogram]


def observe(
    model: ModelProto,
    nodes: Sequence[NodeProto],
    batches: Sequence[Batch],
    *,
    strength: float = SMOOTHING,
) -> Observed:
    """Run a model on real texts and look at what its products by a weight take.

    Args:
        model: As from `compress.artifacts.quantize_onnx.prepare`; not changed.
        nodes: Its MatMul nodes that take a weight.
        batches: Texts; padding is left out.
        strength: Of the smoothing, from 0, none, to 1, all of the range into the weights.
    """
    names = list(dict.fromkeys(node.input[0] for node in nodes))
    activations = watch(model, names)
    largest: dict[str, FloatArray] = {}
    for name, values in stream(activations, batches):
        found = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)  # [inner]
        largest[name] = np.maximum(largest.get(name, 0.0), found)
    smoothing = _smoothing(model, nodes, largest, strength=strength)
    histograms = {name: Histogram() for name in names}
    for name, values in stream(activations, batches):
        histograms[name].add(values / smoothing[name])
    logger.info("calibrated %d inputs of products on %d texts", len(names), len(batches))
    return Observed(smoothing, histograms)


Activations = Callable[[Batch], dict[str, FloatArray]]


def stream(activations: Activations, batches: Sequence[Batch]) -> Iterator[tuple[str, FloatArray]]:
    """Give the activations of one text after another, without padding, by their names."""
    for text in single_texts(batches):
        yield from activations(text).items()


def watch(model: ModelProto, names: Sequence[str]) -> Activations:
    """Open a model so that a batch gives some of its inner values, float32 ``[…, inner]``."""
    watched = ModelProto()
    watched.CopyFrom(model)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    watched.graph.ClearField("output")
    watched.graph.output.extend(outputs)
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.log_severity_level = 3
    session = ort.InferenceSession(
        watched.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    ranks = {node.name: len(node.shape) for node in session.get_inputs()}

    def run(batch: Batch) -> dict[str, FloatArray]:
        return dict(zip(names, session.run(list(names), feed(batch, ranks)), strict=True))

    return run


def _smoothing(
    model: ModelProto,
    nodes: Sequence[NodeProto],
    largest: dict[str, FloatArray],
    *,
    strength: float,
) -> dict[str, FloatArray]:
    """Divide channel ``j`` by ``max|X_j| ** a / max|W_j| ** (1 - a)``: equation 4 of the paper."""
    weights = {t.name: t for t in model.graph.initializer}
    smoothing: dict[str, FloatArray] = {}
    for inputs, matrices in linked((node.input[0], node.input[1]) for node in nodes):
        peaks = np.max([largest[name] for name in inputs], axis=0)  # [inner]
        rows = np.max(
            [np.abs(numpy_helper.to_array(weights[name])).max(axis=1) for name in matrices], axis=0
        )
        factors = np.ones_like(peaks)
        live = (peaks > 0) & (rows > 0)
        factors[live] = peaks[live] ** strength / rows[live] ** (1 - strength)
        smoothing |= dict.fromkeys(inputs, factors.astype(np.float32))
    return smoothing
