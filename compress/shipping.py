"""A trained student becomes a bundle with its report."""

from __future__ import annotations

import logging
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.architecture import architecture_of
from compress.export_bundle import ExportResult, export_bundle
from compress.options import config_to_dict, save_run
from compress.probe import make_probe, torch_rows
from compress.report import Report, write_report
from compress.report_records import SplitRecord, StudentRecord, TeacherRecord
from compress.scores import Score, score_rows
from edgebert import __version__
from edgebert.cpu import machine

if TYPE_CHECKING:
    from compress.data import TaskData
    from compress.distill_config import DistillConfig
    from compress.imitate import Imitation
    from compress.stopwatch import Stopwatch
    from compress.teacher_step import ReadyTeacher
    from compress.teachers import ResolvedTeacher

logger = logging.getLogger(__name__)

PACKAGES = ("torch", "transformers", "tokenizers", "onnx", "onnxruntime", "numpy")


def ship(
    found: ResolvedTeacher,
    teacher: ReadyTeacher,
    imitation: Imitation,
    data: TaskData,
    config: DistillConfig,
    watch: Stopwatch,
) -> Report:
    """Export, gate and measure a student, and write the bundle whole.

    Args:
        found: Where the teacher came from.
        teacher: Measured and timed beside the artifacts.
        imitation: The student.
        data: Gates look at dev; scores are of test if there is one.
        config: Of the run.
        watch: Its times go into the report.

    Returns:
        What ``report.json`` says.

    Raises:
        GateError: FP32 doesn't match torch; nothing was written.
    """
    teacher.model.cpu()  # type: ignore[no-untyped-call]  # timed on the device that the artifacts run on
    with watch.step("teacher-score"):
        final, dev = _teacher_scores(teacher, data, config)
    reports: list[Report] = []

    def add_report(building: Path, result: ExportResult) -> None:
        record = _teacher_record(found, teacher, result, final, dev)
        seconds = {**watch.seconds, **{f"export/{k}": v for k, v in result.seconds.items()}}
        report = _report(result, record, imitation, data, config, teacher, seconds)
        write_report(report, building)
        save_run(config, building)
        reports.append(report)

    head = teacher.encoded.dev.head
    with watch.step("export"):
        export_bundle(
            imitation.built.model,
            teacher.tokenizer_dir,
            output_dir=config.output_dir,
            task=config.task,
            data=data,
            max_length=config.max_length,
            labels=data.labels,
            problem_type=data.problem_type,
            pooling=head.pooling,
            normalize=head.normalize,
            prompts=teacher.prompts,
            lineage=[_lineage(found, config, data)],
            teacher_model=teacher.model,
            write_report=add_report,
        )
    logger.info("Wrote %s", config.output_dir)
    return reports[0]


def _teacher_scores(
    teacher: ReadyTeacher, data: TaskData, config: DistillConfig
) -> tuple[Score, Score]:
    """Score the teacher in torch FP32 on the report's split, and on dev."""
    probe = teacher.encoded.dev
    values = torch_rows(teacher.model, probe).values
    dev = score_rows(probe, values, values)
    if data.test is None or (data.test.labels is None and probe.masked is None):
        return dev, dev
    final = make_probe(
        data.test,
        probe.head,
        teacher.tokenizer,
        max_length=config.max_length,
        mask_id=teacher.special_ids.get("mask_token_id"),
    )
    values = torch_rows(teacher.model, final).values
    return score_rows(final, values, values), dev


def _teacher_record(
    found: ResolvedTeacher,
    teacher: ReadyTeacher,
    result: ExportResult,
    final: Score,
    dev: Score,
) -> TeacherRecord:
    comparable = final.metric == result.metric
    return TeacherRecord(
        requested=found.requested,
        used=found.used,
        note=found.note,
        params=teacher.model.num_parameters(),
        score=final.value if comparable else None,
        interval=final.interval if comparable else None,
        dev_score=dev.value if comparable else None,
        per_class=final.per_class,
        engine=f"torch {version('torch')}",
        latency_ms=result.torch_latency_ms,
        texts_per_s=result.torch_texts_per_s,
        architecture=architecture_of(teacher.model.config),
    )


def _report(
    result: ExportResult,
    record: TeacherRecord,
    imitation: Imitation,
    data: TaskData,
    config: DistillConfig,
    teacher: ReadyTeacher,
    seconds: dict[str, float],
) -> Report:
    model = imitation.built.model
    splits = {"train": data.train, "dev": data.dev, "test": data.test}
    return Report(
        title=config.output_dir.name,
        task=config.task,
        metric=result.metric,
        split=result.split,
        teacher=record,
        student=StudentRecord(
            name=config.student,
            params=model.num_parameters(),
            score=result.reference.score.value,
            architecture=architecture_of(model.config),
            method=imitation.method,
            init=imitation.built.init,
        ),
        data={
            name: SplitRecord(rows=len(split), sha256=split.sha256, source=split.source)
            for name, split in splits.items()
            if split is not None
        },
        rows=result.rows,
        refused=result.refused,
        machine={**machine(), "threads": result.threads},
        seconds=seconds,
        phases=(*((teacher.phase,) if teacher.phase else ()), *imitation.phases),
        lineage=result.manifest.lineage,
        notes=(record.note,) if record.note else (),
        command=" ".join(["python -m compress.distill", *sys.argv[1:]]),
        versions=_versions(),
        created=_now(),
    )


def _lineage(found: ResolvedTeacher, config: DistillConfig, data: TaskData) -> dict[str, Any]:
    return {
        "step": "distill",
        "config": config_to_dict(config),
        "teacher": {"requested": found.requested, "used": found.used, "note": found.note},
        "seed": config.seed,
        "data": {split.name: split.sha256 for split in (data.train, data.dev, data.test) if split},
        "versions": _versions(),
        "created": _now(),
    }


def _versions() -> dict[str, str]:
    return {"edgebert": __version__, **{name: version(name) for name in PACKAGES}}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
