"""One model, one verified bundle: exported, gated, quantized, gated, timed; whole or not at all."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from compress.artifacts.calibration import calibration_batches
from compress.artifacts.exporters import ExportPlan, get_exporter, plan_export
from compress.artifacts.make import FAILURES, OpenArtifact, make_fp32, make_int8
from compress.artifacts.quantizer import Exporter, by_precision
from compress.artifacts.sensitivity import verdict
from compress.artifacts.timing import compare_latency, core_share
from compress.bundles.artifact_rows import (
    artifact_row,
    candidate_rows,
    refused_fp32,
    refused_int8,
)
from compress.bundles.exits import ExitJob, add_exits
from compress.bundles.golden import check_other_tokenizer, golden_of
from compress.bundles.result import ExportResult as ExportResult
from compress.bundles.result import Reference, measure_reference
from compress.bundles.writer import (
    BundleSpec,
    bundle_tokenizer,
    takes_pairs,
    write_checkpoint,
    write_manifest,
)
from compress.data.encoding import require_known_ids
from compress.data.task_data import Split, TaskData
from compress.models.task_head import TaskHead
from compress.reporting.exit_records import ExitRecord
from compress.reporting.records import ArtifactRow, CandidateRecord, Latency
from compress.scoring.probe import Probe, make_probe
from compress.scoring.throughput import torch_throughput
from edgebert.errors import GateError
from edgebert.files import whole_directory
from edgebert.formats.manifest import Manifest

logger = logging.getLogger(__name__)

LatencyByShape: TypeAlias = dict[str, Latency]  # like b1_s32
WriteReport = Callable[[Path, ExportResult], None]


def export_bundle(
    model: Any,  # transformers' models have no common type with a configuration
    tokenizer_dir: Path,
    *,
    output_dir: Path,
    head: TaskHead,
    data: TaskData,
    max_length: int,
    stride: int | None = None,
    prompts: dict[str, str] | None = None,
    lineage: Sequence[dict[str, Any]] = (),
    teacher_model: Any | None = None,
    plan: ExportPlan | None = None,
    write_report: WriteReport | None = None,
) -> ExportResult:
    """Write a model as a bundle whose artifacts have passed their gates.

    Gates look at ``data.dev``; scores are of ``data.test`` if there is one. An artifact that is
    refused is left out and told in the result; without FP32 an engine gets no INT8 either.

    Args:
        model: A `transformers` model with the head of its task; moved to the CPU and to FP32.
        tokenizer_dir: Where its ``tokenizer.json`` is.
        output_dir: Where the bundle goes; what stands there is replaced once the bundle is whole.
        head: The task and what the model's outputs mean.
        data: Without labels, agreement with the torch model takes the place of the task's metric.
        max_length: Longest input in tokens, special tokens included.
        stride: Tokens that neighbouring windows share; None for a quarter of ``max_length``.
        prompts: Text before an input, by role.
        lineage: One entry a step, oldest first.
        teacher_model: Timed in torch beside the artifacts; the model itself by default.
        plan: Engines and recipes; every engine installed by default.
        write_report: Called with the unfinished bundle's directory, to add files to it.

    Raises:
        GateError: On no engine FP32 matches torch, so there is no bundle.
        ModelError: The tokenizer gives an id that the model has no row for.
    """
    spec = BundleSpec(
        head=head,
        max_length=max_length,
        stride=stride,
        pairs=takes_pairs(head.task, data.dev.text_pairs),
        prompts=dict(prompts or {}),
        lineage=tuple(lineage),
    )
    to_cpu(model, head)
    with whole_directory(output_dir) as building, ExitStack() as opened:
        write_checkpoint(building, model, tokenizer_dir, spec)
        export = _Export(building, model, spec, data)
        result = export.run(opened, teacher=teacher_model or model, plan=plan or plan_export())
        result = replace(result, output_dir=output_dir)
        if write_report is not None:
            write_report(building, result)
    return result


def to_cpu(model: Any, head: TaskHead) -> None:
    """Put a model and its Dense modules and exits where artifacts run: on the CPU, in FP32."""
    for module in (model, head.dense, head.exits):
        if module is not None:
            module.to(device="cpu", dtype=torch.float32).eval()


class _Export:
    """The steps of one export, and what they share."""

    def __init__(self, building: Path, model: Any, spec: BundleSpec, data: TaskData) -> None:
        self.building, self.model, self.spec, self.data = building, model, spec, data
        self.threads = torch.get_num_threads()
        self.seconds: dict[str, float] = {}
        self.refused: list[ArtifactRow] = []
        self.candidates: list[CandidateRecord] = []
        self.tokenizer, self.special_ids = bundle_tokenizer(building)
        self.dev = self._probe(data.dev)
        self.final = self.dev
        # Test is read for a score alone; closeness to the torch model is the same on dev.
        if data.test is not None and (data.test.labels is not None or self.dev.answers is not None):
            self.final = self._probe(data.test)
        self.calibration = calibration_batches(data.train, self._probe)

    def run(self, opened: ExitStack, *, teacher: Any, plan: ExportPlan) -> ExportResult:
        with self._timed("reference"):
            reference = self._reference()
        artifacts: list[OpenArtifact] = []
        for backend, recipes in plan.recipes.items():
            exporter = get_exporter(backend, exporter=plan.exporter)
            artifacts += self._make(exporter, reference, recipes, opened)
        if not artifacts:
            reasons = [f"{row.backend}: {' '.join(row.gate.reasons)}" for row in self.refused]
            raise GateError(f"{' '.join(reasons)} Nothing was written.")
        with self._timed("latency"):
            share = core_share(self.threads)
            latency = self._latency(teacher, artifacts)
            share = min(share, core_share(self.threads))
            texts_per_s = torch_throughput(teacher, self.model, self.dev)
        with self._timed("scores"):
            rows = [self._row(one, reference, latency[one.name]) for one in artifacts]
        with self._timed("golden"):
            manifest = self._manifest(artifacts, reference)
        manifest, exits = self._exits(manifest, artifacts, reference)
        return ExportResult(
            output_dir=self.building,
            manifest=manifest,
            rows=tuple(rows),
            refused=tuple(self.refused),
            missing=plan.missing,
            split=self.final.split.name,
            measured={probe.split.name: probe.measured for probe in (self.dev, self.final)},
            reference=reference,
            torch_latency_ms=latency["torch"],
            torch_texts_per_s=texts_per_s,
            threads=self.threads,
            core_share=share,
            seconds=self.seconds,
            candidates=tuple(self.candidates),
            exits=exits,
        )

    def _exits(
        self, manifest: Manifest, artifacts: list[OpenArtifact], reference: Reference
    ) -> tuple[Manifest, tuple[ExitRecord, ...]]:
        """Make the model's segments too, if texts may leave it early."""
        exits = self.spec.head.exits
        if exits is None:
            return manifest, ()
        parts = (self.building, self.model, exits, self.dev, self.final, reference)
        job = ExitJob(*parts, self.calibration, self.tokenizer, self.threads)
        wholes = [one for one in artifacts if one.artifact.precision != "int4"]
        with self._timed("exits"):
            return add_exits(job, manifest, wholes)

    def _make(
        self, exporter: Exporter, reference: Reference, recipes: Sequence[str], opened: ExitStack
    ) -> list[OpenArtifact]:
        """Make the artifacts of one engine: FP32, then those quantized; none of those refused."""
        how = {"max_length": self.spec.max_length, "threads": self.threads}
        with self._timed(f"{exporter.backend}_fp32"):
            try:
                fp32 = make_fp32(self.building, exporter, self.model, self.dev, **how)
            except FAILURES as error:
                self._refuse(refused_fp32(exporter, error))
                shutil.rmtree((self.building / exporter.fp32_path).parent)
                return []
        opened.callback(fp32.backend.close)
        return [fp32, *self._quantized(exporter, fp32, reference, recipes, opened)]

    def _quantized(
        self,
        exporter: Exporter,
        fp32: OpenArtifact,
        reference: Reference,
        recipes: Sequence[str],
        opened: ExitStack,
    ) -> Iterator[OpenArtifact]:
        """Make the INT8 artifact of an engine, and the INT4 one where recipes make such."""
        given = (self.building, exporter, self.dev, reference.dev.values)
        for precision, chosen in by_precision(exporter, recipes).items():
            with self._timed(f"{exporter.backend}_{precision}"):
                outcomes, made = make_int8(
                    *given,
                    calibration=self.calibration,
                    recipes=chosen,
                    threads=self.threads,
                    min_engine=fp32.artifact.min_engine,
                    precision=precision,
                )
            self.candidates += candidate_rows(exporter, outcomes, made)
            if made is None:
                self._refuse(refused_int8(exporter, outcomes, precision=precision))
                continue
            opened.callback(made.backend.close)
            yield made

    def _refuse(self, row: ArtifactRow) -> None:
        self.refused.append(row)
        logger.warning("%s/%s %s", row.backend, row.precision, verdict(row.gate))

    def _probe(self, split: Split) -> Probe:
        probe = make_probe(
            split,
            self.spec.head,
            self.tokenizer,
            max_length=self.spec.max_length,
            stride=self.spec.stride,
            mask_id=self.special_ids.get("mask_token_id"),
        )
        require_known_ids(probe.encoded, self.model.config.vocab_size)
        return probe

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - start
        logger.info("export, %s: %.1f s", step, self.seconds[step])

    def _reference(self) -> Reference:
        reference, self.dev, self.final = measure_reference(self.model, self.dev, self.final)
        return reference

    def _latency(self, teacher: Any, artifacts: list[OpenArtifact]) -> dict[str, LatencyByShape]:
        tokens = np.minimum(self.dev.token_stream, teacher.config.vocab_size - 1)
        backends = {one.name: one.backend for one in artifacts}
        limit = self.spec.max_length
        task = self.spec.head.task
        return compare_latency(teacher, backends, tokens=tokens, max_length=limit, task=task)

    def _row(
        self, one: OpenArtifact, reference: Reference, latency_ms: LatencyByShape
    ) -> ArtifactRow:
        return artifact_row(
            one,
            self.final,
            dev=self.dev,
            dev_reference=reference.dev.values,
            final_reference=reference.final.values,
            latency_ms=latency_ms,
        )

    def _manifest(self, artifacts: list[OpenArtifact], reference: Reference) -> Manifest:
        spec = self.spec
        golden = golden_of(
            self.data.dev,
            self.tokenizer,
            spec.head,
            pairs=spec.pairs,
            max_length=spec.max_length,
        )
        check_other_tokenizer(self.building, golden, max_length=spec.max_length)
        return write_manifest(
            self.building,
            spec=spec,
            hidden_size=int(self.model.config.hidden_size),
            special_ids=self.special_ids,
            golden=golden,
            artifacts=[(one.artifact, one.backend) for one in artifacts],
            tokenizer=self.tokenizer,
            dev_values=reference.dev.values,
            no_answer_threshold=self.dev.no_answer_threshold,
        )
