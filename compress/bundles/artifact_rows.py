"""One row of the report for each artifact: measured, or refused with the reasons."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compress.artifacts.gate import directions
from compress.artifacts.make import OpenArtifact
from compress.artifacts.quantizer import Exporter, path_of
from compress.artifacts.sensitivity import Int8Outcome
from compress.reporting.records import (
    ArtifactRow,
    CandidateRecord,
    GateRecord,
    Latency,
    Parity,
)
from compress.scoring.probe import Probe, engine_rows
from compress.scoring.scores import Score, score_rows
from edgebert.types import FloatArray


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
        parity=parity(dev, one.dev.values, dev_reference),
        latency_ms=latency_ms,
        texts_per_s=one.dev.texts_per_s,
        gate=one.gate,
        interval=score.interval,
        dev_score=dev_score.value if dev_score.metric == score.metric else None,
        per_class=score.per_class,
        engine=one.backend.engine,
        recipe=str(one.artifact.recipe.get("quantization", "")),
    )


def refused_fp32(exporter: Exporter, error: Exception) -> ArtifactRow:
    """Tell of an engine that a model can't run on as it should; it gets no INT8 either."""
    reasons = (str(error), "So no INT8 was made either.")
    gate = GateRecord(passed=False, limits={}, reasons=reasons)
    return _refused(exporter, "fp32", exporter.fp32_path, gate)


def refused_int8(
    exporter: Exporter, outcomes: Mapping[str, Int8Outcome], *, precision: str = "int8"
) -> ArtifactRow:
    """Tell of an artifact that its gate kept out: what is known of it is what the gate saw.

    Args:
        exporter: Of the engine.
        outcomes: By recipe, none of which passed.
        precision: Of the artifact, ``int8`` or ``int4``.
    """
    gates = {recipe: outcome.gate for recipe, outcome in outcomes.items()}
    last = list(gates.values())[-1]
    reasons = [
        f"{recipe}: {reason}" if len(gates) > 1 else reason
        for recipe, gate in gates.items()
        for reason in gate.reasons
    ]
    gate = GateRecord(
        passed=False,
        limits=last.limits,
        numbers=last.numbers,
        reasons=tuple(reasons),
        kept_fp32=last.kept_fp32,
        kept_int8=last.kept_int8,
    )
    return _refused(exporter, precision, path_of(exporter, precision), gate)


def candidate_rows(
    exporter: Exporter, outcomes: Mapping[str, Int8Outcome], kept: OpenArtifact | None
) -> list[CandidateRecord]:
    """Tell of every recipe of an engine that was tried, in that order.

    Args:
        exporter: Of the engine.
        outcomes: By recipe.
        kept: The artifact that was chosen.
    """
    chosen = None if kept is None else kept.artifact.recipe["quantization"]
    return [
        _candidate(exporter, recipe, outcome, chosen=recipe == chosen)
        for recipe, outcome in outcomes.items()
    ]


def _candidate(
    exporter: Exporter, recipe: str, outcome: Int8Outcome, *, chosen: bool
) -> CandidateRecord:
    gate, tried, precision = outcome.gate, outcome.tried, exporter.recipes[recipe].precision
    scores = [value for name, value in gate.numbers.items() if name.endswith(f"_{precision}")]
    return CandidateRecord(
        backend=exporter.backend,
        recipe=recipe,
        precision=precision,
        passed=gate.passed,
        chosen=chosen,
        size_bytes=tried.size_bytes if tried else None,
        dev_score=scores[0] if scores else None,
        error=gate.numbers.get("error"),
        latency_ms=outcome.latency_ms,
        matmuls=(tried.matmuls, tried.matmuls_total) if tried else None,
        gathers=(tried.gathers, tried.gathers_total) if tried else None,
        kept_fp32=gate.kept_fp32,
        kept_int8=gate.kept_int8,
        reasons=gate.reasons,
        error_by_part=outcome.error_by_part,
    )


def _refused(exporter: Exporter, precision: str, path: str, gate: GateRecord) -> ArtifactRow:
    return ArtifactRow(
        backend=exporter.backend,
        precision=precision,
        path=path,
        size_bytes=None,
        score=None,
        parity=None,
        latency_ms={},
        texts_per_s=None,
        gate=gate,
    )


def parity(probe: Probe, values: FloatArray, reference: FloatArray) -> Parity:
    """Compare rows with those of the torch model."""
    worst = float(np.abs(values - reference).max())
    return Parity(worst, float(directions(probe, values, reference).min()))
