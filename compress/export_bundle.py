"""One model, one verified bundle: exported, gated, quantized, gated, timed; whole or not at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from compress.artifacts import OpenArtifact, artifact_row, make_fp32, make_int8, refused_row
from compress.bundle_writer import (
    BundleSpec,
    bundle_tokenizer,
    check_other_tokenizer,
    golden_of,
    write_checkpoint,
    write_manifest,
)
from compress.capture import Pooling
from compress.data import Split, TaskData
from compress.export_result import ExportResult as ExportResult
from compress.export_result import Reference
from compress.probe import Probe, TaskHead, make_probe, sample_probe, torch_rows
from compress.quantize_onnx import DEFAULT_RECIPE
from compress.report_records import ArtifactRow, Latency
from compress.scores import score_rows
from compress.timing import compare_latency, core_share
from edgebert.files import whole_directory
from edgebert.manifest import Manifest
from edgebert.vectors import INT8_MAX

logger = logging.getLogger(__name__)

THROUGHPUT_TEXTS = 256
SCALE_HEADROOM = 1.25  # dev doesn't hold the largest value of each dimension; beyond it is clipped
LatencyByShape: TypeAlias = dict[str, Latency]  # like b1_s32


WriteReport = Callable[[Path, ExportResult], None]


def export_bundle(
    model: Any,  # transformers' models have no common type with a configuration
    tokenizer_dir: Path,
    *,
    output_dir: Path,
    task: str,
    data: TaskData,
    max_length: int,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    pooling: Pooling | None = None,
    normalize: bool = False,
    prompts: dict[str, str] | None = None,
    lineage: Sequence[dict[str, Any]] = (),
    teacher_model: Any | None = None,
    recipe: str = DEFAULT_RECIPE,
    write_report: WriteReport | None = None,
) -> ExportResult:
    """Write a model as a bundle whose artifacts have passed their gates.

    Gates look at ``data.dev``; scores are of ``data.test`` if there is one. INT8 that is refused is
    left out and told in the result.

    Args:
        model: A `transformers` model with the head of its task; moved to the CPU and to FP32.
        tokenizer_dir: Where its ``tokenizer.json`` is.
        output_dir: Where the bundle goes; what stands there is replaced once the bundle is whole.
        task: ``text-classification``, ``feature-extraction`` or ``fill-mask``.
        data: Without labels, agreement with the torch model takes the place of the task's metric.
        max_length: Longest input in tokens, special tokens included.
        labels: Names in the order of the logits.
        problem_type: Of a text-classification.
        pooling: Of a feature-extraction.
        normalize: Whether pooled vectors get unit length.
        prompts: Text before an input, by role.
        lineage: One entry a step, oldest first.
        teacher_model: Timed in torch beside the artifacts; the model itself by default.
        recipe: Of the INT8 quantization, a key of ``compress.quantize_onnx.RECIPES``.
        write_report: Called with the unfinished bundle's directory, to add files to it.

    Raises:
        GateError: FP32 doesn't match torch, so there is no bundle.
    """
    spec = BundleSpec(
        head=TaskHead(
            task=task,
            labels=tuple(labels),
            problem_type=problem_type if task == "text-classification" else None,
            pooling=pooling if task == "feature-extraction" else None,
            normalize=normalize,
        ),
        max_length=max_length,
        pairs=task == "text-classification" and data.dev.text_pairs is not None,
        prompts=dict(prompts or {}),
        lineage=tuple(lineage),
    )
    model = model.to(device="cpu", dtype=torch.float32).eval()
    with whole_directory(output_dir) as building, ExitStack() as opened:
        write_checkpoint(building, model, tokenizer_dir, spec)
        export = _Export(building, model, spec, data)
        result = export.run(opened, teacher=teacher_model or model, recipe=recipe)
        result = replace(result, output_dir=output_dir)
        if write_report is not None:
            write_report(building, result)
    return result


class _Export:
    """The steps of one export, and what they share."""

    def __init__(self, building: Path, model: Any, spec: BundleSpec, data: TaskData) -> None:
        self.building, self.model, self.spec, self.data = building, model, spec, data
        self.threads = torch.get_num_threads()
        self.seconds: dict[str, float] = {}
        self.tokenizer, self.special_ids = bundle_tokenizer(building)
        self.dev = self._probe(data.dev)
        self.final = self.dev
        # Test is read for a score alone; closeness to the torch model is the same on dev.
        if data.test is not None and (data.test.labels is not None or self.dev.answers is not None):
            self.final = self._probe(data.test)

    def run(self, opened: ExitStack, *, teacher: Any, recipe: str) -> ExportResult:
        with self._timed("reference"):
            reference = self._reference()
        length, threads = self.spec.max_length, self.threads
        with self._timed("fp32"):
            (self.building / "onnx").mkdir()
            fp32 = make_fp32(
                self.building, self.model, self.dev, max_length=length, threads=threads
            )
            opened.callback(fp32.backend.close)
        with self._timed("int8"):
            values = reference.dev.values
            outcome, int8 = make_int8(
                self.building, self.dev, values, recipe=recipe, threads=threads
            )
        artifacts = [fp32]
        if int8 is not None:
            artifacts.append(int8)
            opened.callback(int8.backend.close)
        with self._timed("latency"):
            share = core_share(threads)
            latency = self._latency(teacher, artifacts)
            share = min(share, core_share(threads))
            texts_per_s = self._throughput(teacher)
        with self._timed("scores"):
            rows = [self._row(one, reference, latency[one.name]) for one in artifacts]
        with self._timed("golden"):
            manifest = self._manifest(artifacts, reference)
        return ExportResult(
            output_dir=self.building,
            manifest=manifest,
            rows=tuple(rows),
            refused=() if int8 is not None else (refused_row(outcome),),
            split=self.final.split.name,
            reference=reference,
            torch_latency_ms=latency["torch"],
            torch_texts_per_s=texts_per_s,
            threads=threads,
            core_share=share,
            seconds=self.seconds,
            error_by_part=outcome.error_by_part,
        )

    def _probe(self, split: Split) -> Probe:
        return make_probe(
            split,
            self.spec.head,
            self.tokenizer,
            max_length=self.spec.max_length,
            mask_id=self.special_ids.get("mask_token_id"),
        )

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - start
        logger.info("export, %s: %.1f s", step, self.seconds[step])

    def _reference(self) -> Reference:
        dev = torch_rows(self.model, self.dev)
        final = dev if self.final is self.dev else torch_rows(self.model, self.final)
        return Reference(
            dev=dev,
            dev_score=score_rows(self.dev, dev.values, dev.values),
            final=final,
            score=score_rows(self.final, final.values, final.values),
        )

    def _latency(self, teacher: Any, artifacts: list[OpenArtifact]) -> dict[str, LatencyByShape]:
        tokens = np.minimum(self.dev.token_stream, teacher.config.vocab_size - 1)
        backends = {one.name: one.backend for one in artifacts}
        limit = self.spec.max_length
        return compare_latency(teacher, backends, tokens=tokens, max_length=limit)

    def _throughput(self, teacher: Any) -> float | None:
        if teacher.config.vocab_size != self.model.config.vocab_size:
            return None  # these ids would be another text to it
        return torch_rows(teacher, sample_probe(self.dev, THROUGHPUT_TEXTS)).texts_per_s

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
        golden = golden_of(self.data.dev, self.tokenizer, spec=self.spec)
        check_other_tokenizer(self.building, golden, max_length=self.spec.max_length)
        scale = None
        if self.spec.head.task == "feature-extraction":
            largest = np.abs(reference.dev.values).max(axis=0)  # [hidden]
            largest = np.maximum(largest, 1e-6) * SCALE_HEADROOM
            scale = tuple(float(x) for x in largest / INT8_MAX)
        return write_manifest(
            self.building,
            spec=self.spec,
            hidden_size=int(self.model.config.hidden_size),
            special_ids=self.special_ids,
            golden=golden,
            artifacts=[(one.artifact, one.backend) for one in artifacts],
            tokenizer=self.tokenizer,
            int8_scale=scale,
        )
