"""What an export tells its reader: report.json, report.html and the model card."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from compress.bundles.model_card import model_card
from compress.bundles.result import ExportResult
from compress.data.task_data import TaskData
from compress.models.task_head import TaskHead
from compress.models.teachers import ResolvedTeacher
from compress.options import RUN_NAME
from compress.report import Report, write_report
from compress.reporting.records import PhaseRecord, SplitRecord, StudentRecord, TeacherRecord
from edgebert import __version__
from edgebert.cpu import machine
from edgebert.errors import ModelError
from edgebert.files import write_text
from edgebert.formats.manifest import MANIFEST_NAME, Manifest

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "onnx",
    "onnxruntime",
    "openvino",
    "nncf",
    "litert-torch",
    "ai-edge-quantizer",
    "ai-edge-litert",
)
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


def versions() -> dict[str, str]:
    """Name the versions of the packages that may have a hand in a bundle and are installed."""
    found = {"edgebert": __version__}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def split_records(
    data: TaskData, measured: Mapping[str, int] | None = None
) -> dict[str, SplitRecord]:
    """Describe the splits as they were used.

    Args:
        data: The splits.
        measured: Rows that were scored, by split.
    """
    return {
        split.name: SplitRecord(
            rows=len(split),
            sha256=split.sha256,
            source=split.source,
            measured=(measured or {}).get(split.name),
        )
        for split in (data.train, data.augmented, data.dev, data.test)
        if split is not None
    }


def part_notes(metric: str, splits: Mapping[str, SplitRecord]) -> list[str]:
    """Say which scores are of a part of their split alone."""
    return [
        f"{metric} on {name} is of {split.measured} of {split.rows} texts"
        for name, split in splits.items()
        if split.in_part
    ]


def lineage_entry(
    step: str, config: Mapping[str, Any], data: TaskData, **facts: Any
) -> dict[str, Any]:
    """Make a step's entry of the lineage: config, seed, data hashes, versions.

    Args:
        step: Its name, like ``export``.
        config: Its settings as JSON can hold them.
        data: What it used.
        facts: What else is worth knowing, such as ``model``.
    """
    return {
        "step": step,
        **facts,
        "config": dict(config),
        "seed": config.get("seed"),
        "data": {name: record.sha256 for name, record in split_records(data).items()},
        "versions": versions(),
    }


def earlier_steps(path: Path) -> tuple[dict[str, Any], ...]:
    """Give the lineage that a model brings along.

    Args:
        path: A bundle, whose manifest has it; a checkpoint of ``compress.train``, whose
            ``run.json`` is one entry; or any other checkpoint, which has none.

    Raises:
        ModelError: ``run.json`` can't be read.
    """
    if (path / MANIFEST_NAME).is_file():
        return Manifest.load(path).lineage
    if not (path / RUN_NAME).is_file():
        return ()
    try:
        config = dict(json.loads((path / RUN_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{path / RUN_NAME} can't be read ({error}); remove it.") from error
    step = str(config.pop("step", "train")).removesuffix("Config").lower()
    return ({"step": step, "config": config, "seed": config.get("seed")},)


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
) -> Report:
    """Report on a model as it is: its own teacher, so what is measured is what the export costs.

    Args:
        result: As for `make_report`; so are ``title``, ``data`` and ``command``.
        found: Where the model is from.
        model: In torch.
        head: Its task.
    """
    score, dev = result.reference.score, result.reference.dev_score
    params, shape = count_params(model, head), architecture(model.config)
    teacher = TeacherRecord(
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
        teacher=teacher,
        student=StudentRecord(name=Path(found.used).name, params=params, architecture=shape),
        data=data,
        notes=[found.note] if found.note else [],
        command=command,
    )


def write_papers(directory: Path, report: Report, result: ExportResult) -> None:
    """Write ``report.json``, ``report.html`` and the model card ``README.md``."""
    write_report(report, directory)
    write_text(directory / "README.md", model_card(report, result, directory))
