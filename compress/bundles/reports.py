"""What an export tells its reader: report.json, report.html and the model card."""

from __future__ import annotations

import datetime
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.bundles.model_card import model_card
from compress.bundles.result import ExportResult
from compress.bundles.versions import split_records, versions
from compress.data.task_data import TaskData
from compress.models.task_head import TaskHead
from compress.models.teachers import ResolvedTeacher
from compress.report import Report, write_report
from compress.reporting.records import PhaseRecord, SplitRecord, StudentRecord, TeacherRecord
from edgebert.cpu import machine
from edgebert.files import write_text

if TYPE_CHECKING:
    from compress.bundles.first_teacher import MeasuredTeacher

_SHAPE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")


def count_params(model: Any, head: TaskHead) -> int:
    """Count the parameters of a torch model and of its Dense modules, shared ones once."""
    modules = [model] if head.dense is None else [model, head.dense]
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def architecture(config: Any) -> dict[str, int]:
    """Give the shape of a transformers configuration, by the names that all families share."""
    shape = {name: getattr(config, name, None) for name in _SHAPE}
    shape["intermediate_size"] = shape["intermediate_size"] or getattr(config, "hidden_dim", None)
    return {name: int(value) for name, value in shape.items() if value}


def part_notes(metric: str, splits: Mapping[str, SplitRecord]) -> list[str]:
    """Say which scores are of a part of their split alone."""
    return [
        f"{metric} on {name} is of {split.measured} of {split.rows} texts"
        for name, split in splits.items()
        if split.in_part
    ]


def make_report(
    result: ExportResult,
    *,
    title: str,
    teacher: TeacherRecord,
    student: StudentRecord,
    data: TaskData,
    seconds: Mapping[str, float] | None = None,
    phases: Sequence[PhaseRecord] = (),
    notes: Sequence[str] = (),
    command: str = "",
) -> Report:
    """Put an export's measurements into a report.

    Args:
        result: Of `compress.bundles.export.export_bundle`.
        title: Name of the bundle.
        teacher: Its latency and throughput are filled in from ``result`` where it has none.
        student: Its score is filled in likewise.
        data: What was used.
        seconds: Of the steps before the export.
        phases: Loss curves.
        notes: What a reader must see.
        command: That makes the run again.
    """
    reference = result.reference
    if not teacher.latency_ms:
        teacher = replace(
            teacher,
            latency_ms=result.torch_latency_ms,
            texts_per_s=result.torch_texts_per_s,
            engine=f"torch {importlib.metadata.version('torch')}",
        )
    if student.score is None:
        student = replace(student, score=reference.score.value)
    splits = split_records(data, result.measured)
    export_seconds = {f"export_{step}": value for step, value in result.seconds.items()}
    return Report(
        title=title,
        task=result.manifest.task,
        metric=result.metric,
        split=result.split,
        teacher=teacher,
        student=student,
        data=splits,
        rows=result.rows,
        refused=result.refused,
        candidates=result.candidates,
        exits=result.exits,
        machine={**machine(), "threads": result.threads},
        seconds={**(seconds or {}), **export_seconds},
        phases=tuple(phases),
        lineage=result.manifest.lineage,
        notes=(*notes, *part_notes(result.metric, splits), *result.notes),
        command=command,
        versions=versions(),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def model_report(
    result: ExportResult,
    *,
    title: str,
    found: ResolvedTeacher,
    model: Any,
    head: TaskHead,
    data: TaskData,
    command: str,
    first: MeasuredTeacher | None = None,
    note: str = "",
) -> Report:
    """Report on a model as it was given, beside the first teacher of its lineage.

    Args:
        result: As for `make_report`; so are ``title``, ``data`` and ``command``.
        found: Where the model is from.
        model: In torch.
        head: Its task.
        first: See `compress.bundles.first_teacher`; without one the model is its own teacher, so
            that what is measured is what the export costs.
        note: Why there is none, where one might be expected.
    """
    score, dev = result.reference.score, result.reference.dev_score
    params, shape = count_params(model, head), architecture(model.config)
    itself = TeacherRecord(
        requested=found.requested,
        used=found.used,
        params=params,
        score=score.value,
        note=found.note,
        interval=score.interval,
        dev_score=dev.value if dev.metric == score.metric else None,
        per_class=score.per_class,
        architecture=shape,
    )
    return make_report(
        result,
        title=title,
        teacher=first.record(result.metric) if first else itself,
        student=StudentRecord(name=Path(found.used).name, params=params, architecture=shape),
        data=data,
        notes=[one for one in (found.note, note) if one],
        command=command,
    )


def write_papers(directory: Path, report: Report, result: ExportResult) -> None:
    """Write ``report.json``, ``report.html`` and the model card ``README.md``."""
    write_report(report, directory)
    write_text(directory / "README.md", model_card(report, result, directory))
