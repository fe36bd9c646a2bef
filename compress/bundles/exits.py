"""A bundle's segments: made for each engine, gated, their thresholds calibrated, measured."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compress.artifacts.exit_graphs import EXPORT
from compress.artifacts.exit_make import (
    OpenSegments,
    make_fp32_segments,
    make_int8_segments,
    remove_segments,
)
from compress.artifacts.exporters import get_exporter
from compress.artifacts.gate import BATCH_MATES, fp32_parity, int8_gate, mates_difference
from compress.artifacts.make import FAILURES, OpenArtifact
from compress.bundles.golden import int8_slack, with_golden
from compress.bundles.result import Reference
from compress.models.exits import ExitHeads, ExitModel, load_exits
from compress.models.loading import LoadedModel
from compress.models.task_head import TaskHead
from compress.reporting.exit_records import DepthRecord, ExitRecord
from compress.reporting.records import GateRecord
from compress.scoring.exit_scores import (
    EarlyRows,
    by_exit,
    calibrate_threshold,
    depth_scores,
    leave_early,
)
from compress.scoring.probe import Probe, engine_rows
from compress.scoring.scores import score_rows
from edgebert.cpu import cpu_name
from edgebert.engines.selftest import golden_outputs
from edgebert.errors import GateError
from edgebert.formats.exits import EarlyExit, ExitArtifact
from edgebert.formats.manifest import FileRecord, Manifest
from edgebert.text.tokenizer import Tokenizer
from edgebert.types import Batch, FloatArray

logger = logging.getLogger(__name__)

PRECISIONS = ("fp32", "int8")  # of segments


def with_saved_exits(head: TaskHead, loaded: LoadedModel, path: Path) -> TaskHead:
    """Give a checkpoint's head with the exits that stand beside it, if it has some.

    Raises:
        ModelError: They are not this model's.
    """
    if head.task != "text-classification":
        return head
    return replace(head, exits=load_exits(loaded.model, path, labels=loaded.labels))


@dataclass(frozen=True, eq=False)
class ExitJob:
    """What segments are made of and measured by.

    Attributes:
        building: The unfinished bundle.
        model: In torch FP32.
        exits: Its heads after earlier layers.
        dev: Of the gates and the thresholds.
        final: What scores are reported on; may be ``dev`` itself.
        reference: The model's own rows of both.
        calibration: Texts for recipes that look at activations.
        tokenizer: The bundle's.
        threads: Of the engines.
    """

    building: Path
    model: Any
    exits: ExitHeads
    dev: Probe
    final: Probe
    reference: Reference
    calibration: Sequence[Batch]
    tokenizer: Tokenizer
    threads: int

    @property
    def layers(self) -> int:
        """How many segments there are."""
        return len(self.exits) + 1


@dataclass(frozen=True, eq=False)
class _Made:
    """Segments that passed their gate."""

    artifact: ExitArtifact
    opened: OpenSegments
    gate: GateRecord
    values: FloatArray  # of all exits on dev
    early: EarlyRows  # on dev


def add_exits(
    job: ExitJob, manifest: Manifest, artifacts: Sequence[OpenArtifact]
) -> tuple[Manifest, tuple[ExitRecord, ...]]:
    """Make the segments of every artifact whose engine can drop rows between them.

    Args:
        job: See there.
        manifest: Of the bundle, with golden inputs; it is written again.
        artifacts: Of the whole model; of each engine FP32 first.

    Returns:
        The manifest, with ``early_exit`` if anything passed its gate, and what was measured.
    """
    records: list[ExitRecord] = []
    made: list[_Made] = []
    with ExitStack() as stack:
        fp32: dict[str, _Made] = {}
        for whole in artifacts:
            backend, precision = whole.artifact.backend, whole.artifact.precision
            if backend not in EXPORT or precision not in PRECISIONS:
                continue
            if precision != "fp32" and backend not in fp32:
                continue  # without FP32 an engine gets no INT8 either
            try:
                one = _make(job, whole, manifest, fp32.get(backend))
            except FAILURES as error:
                records.append(_refused(job, whole, str(error)))
                continue
            stack.callback(one.opened.chain.close)
            fp32.setdefault(backend, one)
            made.append(one)
            records.append(_record(job, one))
        if not made:
            return manifest, tuple(records)
        metric = job.reference.dev_score.metric
        goldens = _with_golden(job, manifest, made)
        early = EarlyExit(budget=job.exits.budget, metric=metric, artifacts=goldens)
    manifest = replace(manifest, early_exit=early)
    manifest.save(job.building)
    return manifest, tuple(records)


def _make(job: ExitJob, whole: OpenArtifact, manifest: Manifest, fp32: _Made | None) -> _Made:
    """Make and judge the segments of an artifact; nothing is left of those that are refused.

    Raises:
        GateError: They don't do what they should; the message is the gate's.
        ModelError, BackendError: See `make_fp32_segments`.
    """
    how = {"threads": job.threads}
    if fp32 is None:
        opened = make_fp32_segments(
            job.building,
            whole.artifact.backend,
            job.model,
            replace(job.dev.head, exits=None),
            job.exits,
            max_length=manifest.max_length,
            **how,
        )
    else:
        opened = make_int8_segments(
            job.building, whole, fp32.opened, calibration=job.calibration, **how
        )
    try:
        return _judged(job, whole, opened, manifest, fp32)
    except BaseException:
        remove_segments(job.building, opened)
        raise


def _judged(
    job: ExitJob,
    whole: OpenArtifact,
    opened: OpenSegments,
    manifest: Manifest,
    fp32: _Made | None,
) -> _Made:
    chain, dev, layers = opened.chain, job.dev, job.layers
    recipe = whole.artifact.recipe
    if fp32 is None:
        torch_model = ExitModel(job.model, job.exits).eval()
        gate = fp32_parity(torch_model, chain, dev, max_length=manifest.max_length)
        invariant = gate.numbers.get("batch_mates", BATCH_MATES * 2) <= BATCH_MATES
        _require(gate)
    else:
        chosen = get_exporter(whole.artifact.backend).recipes[str(recipe["quantization"])]
        invariant = chosen.batch_invariant and mates_difference(chain, dev) <= BATCH_MATES
    values = engine_rows(chain, dev, batch_invariant=invariant).values
    reference = job.reference.dev.values
    threshold = calibrate_threshold(dev, values, layers, reference, budget=job.exits.budget)
    early = leave_early(values, layers, threshold)
    if fp32 is not None:
        _require(int8_gate(dev, by_exit(values, layers)[-1], reference))
        gate = int8_gate(dev, early.values, fp32.early.values)
        _require(gate)
    artifact = ExitArtifact(
        backend=whole.artifact.backend,
        precision=whole.artifact.precision,
        files=tuple(FileRecord.of(job.building, name) for name in opened.files),
        recipe=recipe,
        gated_on=cpu_name(),
        min_engine=whole.artifact.min_engine,
        batch_invariant=invariant,
        golden=(),
        tolerance=1.0,
        segments=opened.segments,
        threshold=threshold,
        mean_layers=early.mean_layers,
    )
    return _Made(artifact, opened, gate, values, early)


def _require(gate: GateRecord) -> None:
    if not gate.passed:
        raise GateError(" ".join(gate.reasons))


def _record(job: ExitJob, one: _Made) -> ExitRecord:
    """Measure segments that passed, on dev and on the split that is reported."""
    layers, artifact, reference = job.layers, one.artifact, job.reference
    values = one.values
    if job.final is not job.dev:
        invariant = artifact.batch_invariant
        values = engine_rows(one.opened.chain, job.final, batch_invariant=invariant).values
    early = leave_early(values, layers, artifact.threshold)
    theirs = reference.final.values
    dev_depths = depth_scores(job.dev, one.values, layers, reference.dev.values)
    depths = depth_scores(job.final, values, layers, theirs)
    return ExitRecord(
        backend=artifact.backend,
        precision=artifact.precision,
        budget=job.exits.budget,
        gate=one.gate,
        size_bytes=artifact.size_bytes,
        threshold=artifact.threshold,
        dev_layers=one.early.mean_layers,
        layers=early.mean_layers,
        dev_score=score_rows(job.dev, one.early.values, reference.dev.values).value,
        score=score_rows(job.final, early.values, theirs).value,
        depths=tuple(
            DepthRecord(layers=number, dev_score=on_dev.value, score=own.value)
            for number, (on_dev, own) in enumerate(zip(dev_depths, depths, strict=True), start=1)
        ),
    )


def _refused(job: ExitJob, whole: OpenArtifact, reason: str) -> ExitRecord:
    logger.warning("%s in segments was refused: %s", whole.name, reason)
    return ExitRecord(
        backend=whole.artifact.backend,
        precision=whole.artifact.precision,
        budget=job.exits.budget,
        gate=GateRecord(passed=False, limits={}, reasons=(reason,)),
    )


def _with_golden(
    job: ExitJob, manifest: Manifest, made: Sequence[_Made]
) -> tuple[ExitArtifact, ...]:
    finished: list[ExitArtifact] = []
    fp32: dict[str, list[FloatArray]] = {}
    for one in made:
        rows = golden_outputs(one.opened.chain, job.tokenizer, manifest)
        slack = int8_slack(rows, fp32.setdefault(one.artifact.backend, rows))  # 0 of FP32
        finished.append(with_golden(one.artifact, rows, slack=slack))
    return tuple(finished)
