"""``python -m compress.distill``: from a teacher to a verified student bundle."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from compress.distillation.config import DistillConfig
from compress.options import StepModule, main
from edgebert.shell import EXIT_GATE

if TYPE_CHECKING:
    import torch

    from compress.data.load import TaskData
    from compress.distillation.ensemble import Ensemble
    from compress.models.loading import LoadedModel
    from compress.models.teachers import ResolvedTeacher
    from compress.report import Report
    from compress.training.phase import Term
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)


def distill(
    config: DistillConfig,
    *,
    data: TaskData | None = None,
    teacher: LoadedModel | None = None,
    extra_terms: Mapping[str, Term] | None = None,
) -> Report:
    """Train a student to imitate a teacher, and write it as a verified bundle.

    The work is kept in ``OUTPUT.work`` until the bundle is whole, so that an interrupted run goes
    on with ``resume=True`` and ends in the same weights. A fine-tuned teacher stays there.

    Args:
        config: The settings.
        data: Texts and labels of one's own instead of files, see `compress.data.load.make_split`.
        teacher: A model of one's own; ``config.teacher`` is then the directory that it came from.
        extra_terms: Loss terms of one's own by name, added to the last phase.

    Returns:
        What ``report.json`` says; ``report.refused`` is not empty when a gate kept an artifact out.

    Raises:
        GateError: No artifact passed, so nothing was written.
        EdgeBertError: Bad settings, data or teacher; see the steps.
    """
    from compress.device import resolve_device, set_threads

    set_threads(config.threads)
    from compress.distillation.augmentation import AUGMENTED
    from compress.distillation.given_student import check_given
    from compress.distillation.members import resolve_members
    from compress.distillation.student_check import check_student
    from compress.models.teachers import resolve_teacher
    from compress.report import load_report
    from compress.work import open_work

    device = resolve_device(config.device)
    found = resolve_teacher(config.teacher, no_fallback=config.no_fallback)
    members = resolve_members(config, found)
    (check_given if config.given else check_student)(config, found.path)
    kept = ("teacher", AUGMENTED, *(f"teacher-{i}" for i in range(2, 2 + len(members))))
    with open_work(config, keep=kept) as work:
        if work is None:
            return load_report(config.output_dir)
        return _run(config, (found, *members), work, device, data, teacher, extra_terms)


def _run(
    config: DistillConfig,
    teachers: tuple[ResolvedTeacher, ...],
    work: Path,
    device: torch.device,
    data: TaskData | None,
    teacher: LoadedModel | None,
    extra_terms: Mapping[str, Term] | None,
) -> Report:
    from compress.bundles.shipping import ship
    from compress.data.load import load_data
    from compress.distillation.augmentation import augment, with_augmented
    from compress.distillation.ensemble import ask_teachers
    from compress.distillation.given_student import imitate_on
    from compress.distillation.imitate import imitate
    from compress.distillation.members import check_members
    from compress.stopwatch import Stopwatch

    watch = Stopwatch(work)
    with watch.step("data"):
        data = data or load_data(config, task=config.task, seed=config.seed)
    ensemble, found = None, teachers[0]
    if len(teachers) > 1:
        check_members(teachers[1:], data, config)
    if config.augment:
        with watch.step("augment"):
            data = augment(data, found, config, work=work, device=device)
    with watch.step("teacher"):
        ready = with_augmented(
            _ready(found.path, data, config, work, device, teacher), data, config
        )
        if len(teachers) > 1:
            ensemble = ask_teachers(ready, teachers, data, config, work=work, device=device)
    with watch.step("distill"):
        imitation = (imitate_on if config.given else imitate)(
            ready, data, config, work=work, ensemble=ensemble, extra_terms=extra_terms
        )
    notes = _notes(data, config, ensemble)
    return ship(found, ready, imitation, data, config, watch, ensemble=ensemble, notes=notes)


def _notes(data: TaskData, config: DistillConfig, ensemble: Ensemble | None) -> list[str]:
    """Say what a reader must know of who taught, on what, and how."""
    from compress.distillation.ensemble import note_of

    notes = [] if ensemble is None else [note_of(ensemble.record)]
    if data.augmented is not None:
        notes.append(
            f"learned from {len(data.augmented)} made texts beside {len(data.train)} real ones: "
            f"{data.augmented.source}; no label of theirs was used, only what the teacher says"
        )
    if config.quantization_aware != "none":
        notes.append(
            f"trained in numbers rounded as {config.quantization_aware.upper()} artifacts round "
            "them; the last phase's scores are of those"
        )
    return notes


def _ready(
    path: Path,
    data: TaskData,
    config: DistillConfig,
    work: Path,
    device: torch.device,
    loaded: LoadedModel | None,
) -> ReadyTeacher:
    from compress.training.teacher_step import ready_teacher

    names = tuple(config.teacher_labels.split(",")) if config.teacher_labels else ()
    return ready_teacher(
        path,
        data,
        config,
        work=work,
        device=device,
        learning_rate=config.teacher_learning_rate,
        num_train_epochs=config.teacher_num_train_epochs,
        teacher_labels=names,
        loaded=loaded,
    )


def command(config: DistillConfig) -> int:
    from compress.reporting.table import format_table

    report = distill(config)
    print(format_table(report))
    for row in report.refused:
        logger.error(
            "%s/%s was refused: %s", row.backend, row.precision, " ".join(row.gate.reasons)
        )
    return 0 if report.passed else EXIT_GATE


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            DistillConfig,
            command,
            prog="python -m compress.distill",
            tables={"list-teachers": list_teachers},
        )
    )
