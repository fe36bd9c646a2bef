"""A trained student becomes a bundle with its report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from compress.artifacts.exporters import plan_export
from compress.bundles.export import ExportResult, export_bundle, to_cpu
from compress.bundles.reports import (
    architecture,
    count_params,
    earlier_steps,
    lineage_entry,
    make_report,
    write_papers,
)
from compress.options import command_line, config_to_dict, save_run
from compress.reporting.records import StudentRecord, TeacherRecord
from compress.scoring.probe import torch_rows
from compress.scoring.scores import SELF_METRICS, Score, score_rows
from compress.training.checkpoint import weights_sha256
from compress.training.final_probe import final_probe

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.distillation.config import DistillConfig
    from compress.distillation.ensemble import Ensemble
    from compress.distillation.imitate import Imitation
    from compress.models.teachers import ResolvedTeacher
    from compress.report import Report
    from compress.stopwatch import Stopwatch
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)


def ship(
    found: ResolvedTeacher,
    teacher: ReadyTeacher,
    imitation: Imitation,
    data: TaskData,
    config: DistillConfig,
    watch: Stopwatch,
    *,
    ensemble: Ensemble | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """Export, gate and measure a student, and write the bundle whole.

    Args:
        found: Where the teacher came from.
        teacher: Measured and timed beside the artifacts.
        imitation: The student.
        data: Gates look at dev; scores are of test if there is one.
        config: Of the run.
        watch: Its times go into the report.
        ensemble: All teachers, where there are several.
        notes: What a reader must know beside where the teacher came from.

    Returns:
        What ``report.json`` says.

    Raises:
        GateError: FP32 doesn't match torch; nothing was written.
    """
    to_cpu(teacher.model, teacher.encoded.dev.head)  # timed where the artifacts run
    model = imitation.built.model
    with watch.step("teacher_score"):
        final, dev = _teacher_scores(teacher, data, config)
    reports: list[Report] = []

    def add_report(building: Path, result: ExportResult) -> None:
        report = make_report(
            result,
            title=config.output_dir.name,
            teacher=replace(
                _teacher_record(found, teacher, result, final=final, dev=dev),
                ensemble=ensemble.record if ensemble else None,
            ),
            student=_student_record(imitation, config),
            data=data,
            seconds=watch.seconds,
            phases=[
                *([teacher.phase] if teacher.phase else []),
                *(ensemble.phases if ensemble else ()),
                *imitation.phases,
            ],
            notes=[*([found.note] if found.note else []), *notes],
            command=command_line(config, prog="python -m compress.distill"),
        )
        write_papers(building, report, result)
        save_run(config, building)
        reports.append(report)

    export_bundle(
        model,
        teacher.tokenizer_dir,
        output_dir=config.output_dir,
        head=imitation.head,
        data=data,
        max_length=config.max_length,
        stride=config.doc_stride,
        prompts=teacher.prompts,
        lineage=[
            *earlier_steps(found.path),
            lineage_entry(
                "distill",
                config_to_dict(config),
                data,
                teacher={"requested": found.requested, "used": found.used, "note": found.note},
                weights_sha256=weights_sha256(model),
                **({"ensemble": asdict(ensemble.record)} if ensemble else {}),
            ),
        ],
        teacher_model=teacher.model,
        plan=plan_export(config.backend, config.recipe),
        write_report=add_report,
    )
    logger.info("Wrote %s", config.output_dir)
    return reports[0]


def _teacher_record(
    found: ResolvedTeacher, teacher: ReadyTeacher, result: ExportResult, *, final: Score, dev: Score
) -> TeacherRecord:
    # closeness of an artifact to its own torch model says nothing of the teacher
    comparable = final.metric == result.metric and final.metric not in SELF_METRICS
    return TeacherRecord(
        requested=found.requested,
        used=found.used,
        note=found.note,
        params=count_params(teacher.model, teacher.encoded.dev.head),
        score=final.value if comparable else None,
        interval=final.interval if comparable else None,
        dev_score=dev.value if comparable and dev.metric == final.metric else None,
        per_class=final.per_class,
        architecture=architecture(teacher.model.config),
    )


def _student_record(imitation: Imitation, config: DistillConfig) -> StudentRecord:
    model = imitation.built.model
    return StudentRecord(
        name=config.student,
        params=count_params(model, imitation.head),
        architecture=architecture(model.config),
        method=imitation.method,
        init=imitation.built.init,
    )


def _teacher_scores(
    teacher: ReadyTeacher, data: TaskData, config: DistillConfig
) -> tuple[Score, Score]:
    """Score the teacher in torch FP32 on the report's split, and on dev."""
    probe = teacher.encoded.dev
    values = torch_rows(teacher.model, probe).values
    dev = score_rows(probe, values, values)
    final = final_probe(teacher, data, config, dev_values=values)
    if final is None:
        return dev, dev
    values = torch_rows(teacher.model, final).values
    return score_rows(final, values, values), dev
