"""``python -m compress.prune``: cut what matters least out of a fine-tuned model."""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from compress.options import StepModule, main, save_run
from compress.pruning.config import PruneConfig as PruneConfig
from edgebert.errors import ModelError
from edgebert.files import whole_directory, write_json

if TYPE_CHECKING:
    import torch

    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.pruning.result import PruneResult
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)


def prune(config: PruneConfig, *, data: TaskData | None = None) -> PruneResult:
    """Write a model without the heads, neurons or layers that matter least.

    ``output_dir`` becomes a Hugging Face checkpoint with tokenizer, head and sentence files,
    ``prune.json`` and ``run.json``. Neurons and layers are gone from it; a pruned head is zeros
    there, as no configuration can tell its absence, and gone from every artifact that is exported.

    Args:
        config: The settings.
        data: Texts and labels of one's own instead of files.

    Raises:
        ModelError: The model can't be found or used, has no head for the task, or nothing of what
            is asked can be cut out of its family.
        InputError: So much can't be cut, or there are no labels for ``taylor``.
        DataError: The data can't be used.
    """
    from compress.device import resolve_device, set_threads

    set_threads(config.threads)
    from compress.models.teachers import resolve_teacher
    from compress.pruning.result import load_result
    from compress.work import open_work

    device = resolve_device(config.device)
    found = resolve_teacher(config.model, no_fallback=True)
    with open_work(config) as work:
        if work is None:
            return load_result(config.output_dir)
        return _run(config, found, work, device, data)


def _run(
    config: PruneConfig,
    found: ResolvedTeacher,
    work: Path,
    device: torch.device,
    data: TaskData | None,
) -> PruneResult:
    from compress.data.load import load_data
    from compress.distillation.pruning_rounds import PruningRun
    from compress.models.sentence_layout import read_layout
    from compress.pruning.result import RESULT_NAME
    from compress.training.teacher_step import save_checkpoint

    scored = config.importance == "taylor"
    data = data or load_data(config, task=config.task, seed=config.seed, score_train=scored)
    ready = _ready(config, found.path, work, device, data)
    run = PruningRun(config, ready, data, work)
    for number in range(1, config.rounds + 1):
        run.round(number)
    layout = read_layout(found.path, config.pooling) if run.head.pooling else None
    save_checkpoint(run.model, ready.tokenizer_dir, work / "pruned", head=run.head, layout=layout)
    result = run.result(found, work / "pruned")
    with whole_directory(config.output_dir) as building:
        shutil.copytree(work / "pruned", building, dirs_exist_ok=True)
        write_json(building / RESULT_NAME, asdict(result))
        save_run(config, building)
    logger.info("Wrote %s", config.output_dir)
    return result


def _ready(
    config: PruneConfig, path: Path, work: Path, device: torch.device, data: TaskData
) -> ReadyTeacher:
    """Load a model that has its head already, and score it."""
    from compress.models.loading import load_teacher
    from compress.training.teacher_step import ready_teacher

    loaded = load_teacher(
        path,
        task=config.task,
        labels=data.labels,
        problem_type=data.problem_type,
        teacher_labels=tuple(config.teacher_labels.split(",")) if config.teacher_labels else (),
        work_dir=work / "tokenizer",
    )
    if not loaded.has_head:
        raise ModelError(f"{path} has no head for {config.task}; train one with compress.train.")
    return ready_teacher(
        path,
        data,
        config,
        work=work,
        device=device,
        learning_rate=config.learning_rate,
        num_train_epochs=config.num_train_epochs,
        loaded=loaded,
    )


def _step(config: PruneConfig) -> None:
    from compress.pruning.result import format_result

    print(format_result(prune(config)))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.models.teachers import list_teachers

    sys.exit(
        main(
            PruneConfig,
            _step,
            prog="python -m compress.prune",
            tables={"list-teachers": list_teachers},
        )
    )
