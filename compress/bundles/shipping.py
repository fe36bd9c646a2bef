"""A trained student becomes a bundle with its report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from compress.artifacts.exporters import plan_export
from compress.bundles.export import ExportResult, export_bundle, to_cpu
from compress.bundles.first_teacher import MeasuredTeacher, first_teacher
from compress.bundles.lineage import earlier_steps, lineage_entry, model_place
from compress.bundles.reports import architecture, count_params, make_report, write_papers
from compress.options import command_line, config_to_dict, save_run
from compress.reporting.records import StudentRecord
from compress.scoring.probe import torch_rows
from compress.scoring.scores import Score, score_rows
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
    earlier = earlier_steps(Path(config.student) if config.given else found.path)
    with watch.step("teacher_score"):
        first, note = first_teacher(
            earlier,
            data,
            teacher.encoded.dev.head,
            given=found.path,
            max_length=config.max_length,
            stride=config.doc_stride,
        )
        shown = first or _measured(found, teacher, data, config)
    reports: list[Report] = []

    def add_report(building: Path, result: ExportResult) -> None:
        report = make_report(
            result,
            title=config.output_dir.name,
            teacher=replace(
                shown.record(result.metric), ensemble=ensemble.record if ensemble else None
            ),
            student=_student_record(imitation, config),
            data=data,
            seconds=watch.seconds,
            phases=[
                *([teacher.phase] if teacher.phase else []),
                *(ensemble.phases if ensemble else ()),
                *imitation.phases,
            ],
            notes=[*(one for one in (found.note, note) if one), *notes],
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
            *earlier,
            lineage_entry(
                "distill",
                config_to_dict(config),
                data,
                baseline=model_place(teacher.directory),
                teacher={"requested": found.requested, "used": found.used, "note": found.note},
                weights_sha256=weights_sha256(model),
                **({"ensemble": asdict(ensemble.record)} if ensemble else {}),
            ),
        ],
        teacher_model=shown.model,
        plan=plan_export(config.backend, config.recipe),
        write_report=add_report,
    )
    logger.info("Wrote %s", config.output_dir)
    return reports[0]


def _measured(
    found: ResolvedTeacher, teacher: ReadyTeacher, data: TaskData, config: DistillConfig
) -> MeasuredTeacher:
    final, dev = _teacher_scores(teacher, data, config)
    head = teacher.encoded.dev.head
    return MeasuredTeacher(
        found.requested, found.used, teacher.model, head, final, dev, note=found.note
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
