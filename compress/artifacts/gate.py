"""What an artifact must prove on the engine that will run it, before it may ship.

FP32 has to be the torch model again, at every shape. INT8 may cost 1 % of the task's metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from compress.models.capture import MODEL_INPUTS, model_inputs
from compress.models.graph_module import task_outputs
from compress.models.task_head import SENTENCE, TaskHead
from compress.reporting.records import GateRecord
from compress.scoring.predict import evaluating
from compress.scoring.predictions import predictions
from compress.scoring.probe import Probe, engine_rows, sample_probe
from compress.scoring.scores import Score, cosines, score_rows
from edgebert.types import Batch, FloatArray, IntArray
from runtimes.base import Backend

BATCHES = (1, 2, 7, 32)
LENGTHS = (1, 2, 3, 8, 17, 32, 64, 127, 128, 256, 511, 512)
MAX_CELLS = 2048  # batches of 7 and 32 of every length stop at 256 and 64 tokens: seconds suffice
# Multiplications and numbers of output that the longest batches of 7 and 32 may take. BERT base (12
# layers, 768 wide) gets 4,100 tokens: 7 texts of 512 and 32 of 128, some 2.7 TFLOP with torch's own
# run, which two cores with AVX-512 do in under 30 s. A student of 3 layers, 384 wide, gets all.
MAX_WORK = 350e9
MAX_OUTPUT = 128e6  # 0.5 GB: a masked language model gives its whole vocabulary for every token
MAX_ABS = 1e-4
BATCH_MATES = 1e-5
MATES = 8
RELATIVE_LOSS = 0.01
COSINE_MEAN = 0.99
COLUMNS = ("regression", "multiple-choice", "question-answering")
MIN_PREDICTED = 3  # a class that the reference finds fewer times than this can vanish by chance


@dataclass(frozen=True)
class Shape:
    """One batch that parity is measured on."""

    batch: int
    length: int
    padded: bool


def parity_shapes(max_length: int, *, most_cells: int) -> list[Shape]:
    """List batches of 1 to 32 and lengths of 1 to ``max_length``, with padding and without.

    Args:
        max_length: Longest input in tokens.
        most_cells: Tokens that the longest batch of 7 and of 32 may have; each is padded.
    """
    lengths = sorted({length for length in LENGTHS if length <= max_length} | {max_length})
    shapes = [
        Shape(batch, length, padded)
        for batch in BATCHES
        for length in lengths
        if batch <= 2 or batch * length <= MAX_CELLS
        for padded in (False, True)
    ]
    longest = [Shape(n, min(max_length, most_cells // n), padded=True) for n in BATCHES if n > 2]
    return shapes + [one for one in longest if one.batch * one.length > MAX_CELLS]


def most_cells(config: Any, *, fill_mask: bool) -> int:
    """Tell how many tokens a batch may have, so that parity takes neither minutes nor the memory.

    Args:
        config: Of a transformers model; a token takes about 12 x layers x width x width
            multiplications, whether layers share weights or not.
        fill_mask: Whether it gives logits over its vocabulary for every token.
    """
    work = 12 * max(1, config.num_hidden_layers) * config.hidden_size**2
    output = config.vocab_size if fill_mask else config.hidden_size
    return int(min(MAX_WORK / work, MAX_OUTPUT / output))


def fp32_parity(model: nn.Module, backend: Backend, probe: Probe, *, max_length: int) -> GateRecord:
    """Compare an FP32 artifact with its torch model on real tokens at every shape.

    Args:
        model: The torch reference.
        backend: The artifact, opened.
        probe: Its token ids fill the batches; its head names the outputs, of which all count, but
            of those with a number for each token real tokens alone.
        max_length: Longest shape.

    Returns:
        ``max_abs``: largest difference of any number, at most 1e-4. ``batch_mates`` is measured
        too: see `mates_difference`. It is no reason to refuse: such an artifact runs one text a
        call.
    """
    worst, where = 0.0, ""
    cells = most_cells(model.config, fill_mask=probe.head.task == "fill-mask")
    for shape, batch in _batches(parity_shapes(max_length, most_cells=cells), probe):
        for output, difference in _differences(model, backend, batch, probe.head):
            if not difference <= worst:  # NaN counts as worst
                worst = difference
                where = (
                    f"{output} is off by {worst:.3g} from torch at batch {shape.batch}, length "
                    f"{shape.length}, {'with' if shape.padded else 'without'} padding"
                )
        if np.isnan(worst):
            break
    numbers = {"max_abs": worst, "batch_mates": mates_difference(backend, probe)}
    reasons = [] if worst <= MAX_ABS else [f"{where}; the limit is {MAX_ABS:g}."]
    return _record(reasons, {"max_abs": MAX_ABS, "batch_mates": BATCH_MATES}, numbers)


def _batches(shapes: list[Shape], probe: Probe) -> Iterator[tuple[Shape, Batch]]:
    stream = probe.token_stream
    rng = np.random.default_rng(0)
    start = 0
    for shape in shapes:
        cells = shape.batch * shape.length
        ids = np.take(stream, np.arange(start, start + cells), mode="wrap")
        start = (start + cells) % len(stream)
        real = np.full(shape.batch, shape.length)
        if shape.padded and shape.batch > 1:  # the first row keeps the batch's length
            real[1:] = rng.integers(1, shape.length + 1, shape.batch - 1)
        elif shape.padded:
            real[0] = (shape.length + 1) // 2
        mask = (np.arange(shape.length) < real[:, None]).astype(np.int64)
        ids = np.where(mask == 1, ids.reshape(mask.shape), probe.pad_id)
        second = mask * (np.arange(shape.length) >= real[:, None] // 2)  # as if each were a pair
        yield shape, Batch(ids, mask, second, np.zeros(shape.batch, dtype=np.int64))


def _differences(
    model: nn.Module, backend: Backend, batch: Batch, head: TaskHead
) -> Iterator[tuple[str, float]]:
    found, expected = backend.run(batch), torch_outputs(model, batch, head)
    real = batch.attention_mask == 1
    for name in head.outputs:
        if name == SENTENCE and name not in backend.outputs:
            continue  # it is pooled outside of the graph
        ours, theirs = found[name], expected[name]
        if head.has_token_axis(name):
            ours, theirs = ours[real], theirs[real]
        yield name, float(np.abs(ours - theirs).max())


def torch_outputs(model: nn.Module, batch: Batch, head: TaskHead) -> dict[str, FloatArray]:
    """Run a torch model on an engine's batch; its outputs by the names of the exported graph."""
    device = next(model.parameters()).device
    tensors = {name: torch.from_numpy(getattr(batch, name)).to(device) for name in MODEL_INPUTS}
    inputs = model_inputs(model, tensors)
    if head.task == "multiple-choice":  # each row is a question with one choice
        inputs = {name: values[:, None] for name, values in inputs.items()}
    with evaluating(model):
        outputs = task_outputs(model, inputs, head, mask=tensors["attention_mask"])
    return {name: values.float().cpu().numpy() for name, values in outputs.items()}


def mates_difference(backend: Backend, probe: Probe, *, texts: int = 64) -> float:
    """Measure how much a text's row changes beside others, in units of the largest number.

    In INT8 a float that is off by 1e-7 can turn into the next 8-bit number, in 1 to 3 texts of 100
    where batches were run in any shape; so it takes more than a few texts to see that.

    Args:
        backend: The artifact, opened.
        probe: Some of its texts are run alone, and then in batches, padded to the longest.
        texts: How many.
    """
    sample = sample_probe(probe, texts)
    alone = engine_rows(backend, sample, batch_invariant=False).values
    every = range(len(sample))
    mixed = [list(every[start : start + MATES]) for start in every[::MATES]]  # of any lengths
    together = engine_rows(backend, sample, batch_invariant=True, batches=mixed).values
    scale = max(1.0, float(np.abs(alone).max()))
    return float(np.abs(alone - together).max()) / scale


def int8_gate(
    probe: Probe, values: FloatArray, reference: FloatArray, *, precision: str = "int8"
) -> GateRecord:
    """Judge an INT8 artifact, or an INT4 one, by the task's metric on dev.

    Args:
        probe: The dev split.
        values: The artifact's rows, from its engine.
        reference: Rows of the FP32 torch model.
        precision: Of the artifact, for the names of the numbers; the limits are the same.
    """
    limits = {"relative_loss": RELATIVE_LOSS}
    if not np.isfinite(values).all():
        return _record(["The outputs hold NaN or infinity."], limits, {})
    before, after = score_rows(probe, reference, reference), score_rows(probe, values, reference)
    loss = before.value - after.value
    worthless = before.value <= 0  # right nowhere: it has nothing that it could lose a part of
    if not worthless:
        loss /= before.value
    numbers = {
        f"{before.metric}_fp32": before.value,
        f"{before.metric}_{precision}": after.value,
        "relative_loss": loss,
        "max_abs": float(np.abs(values - reference).max()),
        "cosine_mean": float(directions(probe, values, reference).mean()),
        "error": relative_error(values, reference),
    }
    reasons = []
    if not loss <= RELATIVE_LOSS + 1e-9:  # exactly 1 % passes, however it is rounded
        reasons.append(_loss_reason(before, after, loss))
    if probe.head.task == "feature-extraction" or worthless:
        limits["cosine_mean"] = COSINE_MEAN
        if not numbers["cosine_mean"] >= COSINE_MEAN:
            reasons.append(
                f"The mean cosine with FP32 is {numbers['cosine_mean']:.4f}; "
                f"the limit is {COSINE_MEAN}."
            )
    if probe.head.task in ("text-classification", "token-classification"):
        gone = vanished_classes(probe, values, reference)
        limits["vanished_classes"], numbers["vanished_classes"] = 0.0, float(len(gone))
        reasons += [f"Class {label!r} is never predicted any more." for label in gone]
    return _record(reasons, limits, numbers)


def relative_error(values: FloatArray, reference: FloatArray) -> float:
    """Give the mean squared error of an artifact's rows, in units of the reference's variance.

    Args:
        values: float32 ``[n, width]``.
        reference: Rows of the torch model, of the same shape.

    Returns:
        0 for equal rows, 1 for what giving the mean alone would cost, inf where one isn't finite.
    """
    error = float(np.mean((values - reference) ** 2)) / max(float(reference.var()), 1e-12)
    return error if np.isfinite(error) else float("inf")


def directions(probe: Probe, values: FloatArray, reference: FloatArray) -> FloatArray:
    """Give the cosine of each row with the reference's, float32 ``[n]``.

    A score, or the logits of start and end, are no vector: there it is that of each column.
    """
    if probe.head.task in COLUMNS:
        return cosines(values.T, reference.T)
    return cosines(values, reference)


def vanished_classes(probe: Probe, values: FloatArray, reference: FloatArray) -> list[str]:
    """Name the classes, or tags, that the reference predicts three times or more, values never."""
    labels = probe.head.labels
    before, after = (_counts(predictions(probe, rows), len(labels)) for rows in (reference, values))
    least = min(MIN_PREDICTED, max(1, int(before.sum()) // 10))
    return [labels[i] for i in np.flatnonzero((before >= least) & (after == 0))]


def _counts(predicted: IntArray, classes: int) -> IntArray:
    if predicted.ndim == 2:
        return np.asarray(predicted.sum(axis=0))
    known = predicted[predicted >= 0]  # a word may have no token, so no tag
    return np.bincount(known, minlength=classes).astype(np.int64)


def _loss_reason(before: Score, after: Score, loss: float) -> str:
    return (
        f"{before.metric} fell from {before.value:.4f} to {after.value:.4f}, {loss:.2%} of it; "
        f"the limit is {RELATIVE_LOSS:.0%}."
    )


def _record(reasons: list[str], limits: dict[str, float], numbers: dict[str, float]) -> GateRecord:
    finite = {name: value for name, value in numbers.items() if np.isfinite(value)}
    return GateRecord(
        passed=not reasons, limits=limits, numbers=finite, reasons=tuple(reasons), split="dev"
    )
