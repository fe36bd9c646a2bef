"""Artifacts as they are made: exported or quantized, opened on their engine, and judged there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from compress.gate import BATCH_MATES, fp32_parity, int8_gate, mates_difference
from compress.onnx_graph import MIN_ENGINE, OPSET, export_onnx, output_name
from compress.probe import Probe, Rows, engine_rows, sample_places, sample_probe
from compress.quantize_onnx import get_recipe
from compress.report_records import ArtifactRow, GateRecord, Latency, Parity
from compress.scores import Score, cosines, score_rows
from compress.sensitivity import Int8Outcome, quantize_until_passed
from edgebert.cpu import cpu_name
from edgebert.errors import GateError
from edgebert.manifest import Artifact, FileRecord
from edgebert.types import FloatArray
from runtimes import load_backend
from runtimes.base import Backend, SessionOptions

logger = logging.getLogger(__name__)

BACKEND = "onnx"
FP32_PATH = "onnx/model.onnx"
INT8_PATH = "onnx/model_quantized.onnx"
SENSITIVITY_TEXTS = 128


@dataclass(frozen=True, eq=False)
class OpenArtifact:
    """An artifact that passed its gate, open on its engine.

    Attributes:
        artifact: For the manifest; golden outputs are still to come.
        backend: The engine.
        gate: What the gate said.
        dev: Its rows of dev.
    """

    artifact: Artifact
    backend: Backend
    gate: GateRecord
    dev: Rows

    @property
    def name(self) -> str:
        """Like ``onnx/int8``."""
        return f"{self.artifact.backend}/{self.artifact.precision}"


def make_fp32(
    bundle: Path, model: nn.Module, dev: Probe, *, max_length: int, threads: int
) -> OpenArtifact:
    """Export a model to ONNX and hold it against torch at every shape.

    Args:
        bundle: Directory of the bundle.
        model: The torch reference.
        dev: Texts whose tokens are used.
        max_length: Longest input in tokens.
        threads: Of the engine.

    Raises:
        GateError: The file doesn't give what torch gives.
    """
    task = dev.head.task
    export_onnx(model, bundle / FP32_PATH, task=task)
    backend = _open(bundle / FP32_PATH, threads)
    gate = fp32_parity(model, backend, dev, output=output_name(task), max_length=max_length)
    if not gate.passed:
        backend.close()
        raise GateError(
            f"{BACKEND}/fp32 is not the torch model: {' '.join(gate.reasons)} Nothing was written."
        )
    alone = not gate.numbers.get("batch_mates", np.inf) <= BATCH_MATES
    artifact = _artifact(
        bundle,
        FP32_PATH,
        precision="fp32",
        recipe={"exporter": "torch.onnx legacy, eager attention", "opset": OPSET},
        min_engine=MIN_ENGINE,
        batch_invariant=not alone,
    )
    return OpenArtifact(
        artifact, backend, gate, engine_rows(backend, dev, batch_invariant=not alone)
    )


def make_int8(
    bundle: Path, dev: Probe, reference: FloatArray, *, recipe: str, threads: int
) -> tuple[Int8Outcome, OpenArtifact | None]:
    """Quantize the FP32 file so that the task's metric holds, or not at all.

    Args:
        bundle: Directory of the bundle, with the FP32 file.
        dev: Texts, and labels where there are.
        reference: Rows of the torch model on ``dev``.
        recipe: A key of ``compress.quantize_onnx.RECIPES``.
        threads: Of the engine.
    """
    chosen = get_recipe(recipe)
    sample = sample_probe(dev, SENSITIVITY_TEXTS)
    expected = reference[sample_places(len(dev), SENSITIVITY_TEXTS)]
    last: list[tuple[Rows, bool]] = []

    def gate(path: Path) -> GateRecord:
        backend = _open(path, threads)
        invariant = chosen.batch_invariant and mates_difference(backend, dev) <= BATCH_MATES
        rows = engine_rows(backend, dev, batch_invariant=invariant)
        backend.close()
        last[:] = [(rows, invariant)]
        return int8_gate(dev, rows.values, reference)

    outcome = quantize_until_passed(
        bundle / FP32_PATH,
        bundle / INT8_PATH,
        gate=gate,
        measure=_error_on(sample, expected, threads=threads),
        recipe=recipe,
    )
    if outcome.converted is None:
        return outcome, None
    rows, invariant = last[0]
    done = outcome.converted
    artifact = _artifact(
        bundle,
        INT8_PATH,
        precision="int8",
        recipe={
            "quantization": recipe,
            "about": chosen.about,
            "matmuls": [done.matmuls, done.matmuls_total],
            "gathers": [done.gathers, done.gathers_total],
            "kept_fp32": list(outcome.gate.kept_fp32),
        },
        min_engine=chosen.min_engine,
        batch_invariant=invariant,
    )
    logger.info(
        "int8: %d of %d matrices and %d of %d tables, %.1f MB",
        *(*artifact.recipe["matmuls"], *artifact.recipe["gathers"], artifact.size_bytes / 1e6),
    )
    backend = _open(bundle / INT8_PATH, threads)
    return outcome, OpenArtifact(artifact, backend, outcome.gate, rows)


def _error_on(sample: Probe, expected: FloatArray, *, threads: int) -> Callable[[Path], float]:
    """Make the function that gives a file's mean squared error, in units of the rows' variance."""
    variance = max(float(expected.var()), 1e-12)

    def measure(path: Path) -> float:
        backend = _open(path, threads)
        rows = engine_rows(backend, sample, batch_invariant=False).values
        backend.close()
        error = float(np.mean((rows - expected) ** 2)) / variance
        return error if np.isfinite(error) else float("inf")

    return measure


def artifact_row(
    one: OpenArtifact,
    final: Probe,
    *,
    dev: Probe,
    dev_reference: FloatArray,
    final_reference: FloatArray,
    latency_ms: dict[str, Latency],
) -> ArtifactRow:
    """Score an artifact on dev and on the split that is reported.

    Args:
        one: The artifact; its rows of dev are there.
        final: What scores are reported on; may be ``dev`` itself.
        dev: Of the gates.
        dev_reference: Rows of the torch model on ``dev``.
        final_reference: And on ``final``.
        latency_ms: By batch and length.
    """
    dev_score = score_rows(dev, one.dev.values, dev_reference)
    score: Score = dev_score
    if final is not dev:
        rows = engine_rows(one.backend, final, batch_invariant=one.artifact.batch_invariant)
        score = score_rows(final, rows.values, final_reference)
    return ArtifactRow(
        backend=one.artifact.backend,
        precision=one.artifact.precision,
        path=one.artifact.files[0].path,
        size_bytes=one.artifact.size_bytes,
        score=score.value,
        parity=parity(one.dev.values, dev_reference),
        latency_ms=latency_ms,
        texts_per_s=one.dev.texts_per_s,
        gate=one.gate,
        interval=score.interval,
        dev_score=dev_score.value if dev_score.metric == score.metric else None,
        per_class=score.per_class,
        engine=one.backend.engine,
    )


def refused_row(outcome: Int8Outcome) -> ArtifactRow:
    """Tell of an INT8 file that its gate kept out: what is known of it is what the gate saw."""
    return ArtifactRow(
        backend=BACKEND,
        precision="int8",
        path=INT8_PATH,
        size_bytes=None,
        score=None,
        parity=None,
        latency_ms={},
        texts_per_s=None,
        gate=outcome.gate,
    )


def parity(values: FloatArray, reference: FloatArray) -> Parity:
    """Compare rows with those of the torch model."""
    return Parity(float(np.abs(values - reference).max()), float(cosines(values, reference).min()))


def _open(path: Path, threads: int) -> Backend:
    return load_backend(BACKEND, path, SessionOptions(threads=threads))


def _artifact(
    bundle: Path,
    path: str,
    *,
    precision: str,
    recipe: dict[str, object],
    min_engine: str,
    batch_invariant: bool,
) -> Artifact:
    return Artifact(
        backend=BACKEND,
        precision=precision,
        files=(FileRecord.of(bundle, path),),
        recipe=recipe,
        gated_on=cpu_name(),
        min_engine=min_engine,
        batch_invariant=batch_invariant,
        golden=(),
        tolerance=1.0,
    )
