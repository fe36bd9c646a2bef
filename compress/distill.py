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
    from compress.distillation.student_check import check_student
    from compress.models.teachers import resolve_teacher
    from compress.report import load_report
    from compress.work import open_work

    device = resolve_device(config.device)
    found = resolve_teacher(config.teacher, no_fallback=config.no_fallback)
    check_student(config, found.path)
    with open_work(config, keep="teacher") as work:
        if work is None:
            return load_report(config.output_dir)
        return _run(config, found, work, device, data, teacher, extra_terms)


def _run(
    config: DistillConfig,
    found: ResolvedTeacher,
    work: Path,
    device: torch.device,
    data: TaskData | None,
    teacher: LoadedModel | None,
    extra_terms: Mapping[str, Term] | None,
) -> Report:
    from compress.bundles.shipping import ship
    from compress.data.load import load_data
    from compress.distillation.imitate import imitate
    from compress.stopwatch import Stopwatch

    watch = Stopwatch(work)
    with watch.step("data"):
        data = data or load_data(config, task=config.task, seed=config.seed)
    with watch.step("teacher"):
        ready = _ready(found.path, data, config, work, device, teacher)
    with watch.step("distill"):
        imitation = imitate(ready, data, config, work=work, extra_terms=extra_terms)
    return ship(found, ready, imitation, data, config, watch)


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


def _step(config: DistillConfig) -> int:
    from compress.reporting.table import format_table

    report = distill(config)
    print(format_table(report))
    for row in report.refused:
        logger.error(
            "%s/%s was refused: %s", row.backend, row.precision, " ".join(row.gate.reasons)
        )
    return EXIT_GATE if report.refused else 0


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.models.teachers import list_teachers

    sys.exit(
        main(
            DistillConfig,
            _step,
            prog="python -m compress.distill",
            tables={"list-teachers": list_teachers},
        )
    )
