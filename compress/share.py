"""``python -m compress.share``: let layers share weights, and factorise embeddings."""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from compress.options import StepModule, main, save_run
from compress.sharing.config import ShareConfig as ShareConfig
from edgebert.files import whole_directory, write_json

if TYPE_CHECKING:
    import torch

    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.sharing.albert import Plan
    from compress.sharing.result import ShareResult

logger = logging.getLogger(__name__)


def share(config: ShareConfig, *, data: TaskData | None = None) -> ShareResult:
    """Write a model whose layers share weights or whose embeddings are narrower, as ALBERT.

    ``output_dir`` becomes a Hugging Face checkpoint with tokenizer, head and sentence files,
    ``share.json`` and ``run.json``; it and every artifact that is made of it hold a shared weight
    once. That saves bytes and no time: as many layers are computed as before. Where whole layers
    are shared it is of the family ``albert``; where a part is, of `compress.models.shared_bert`,
    which transformers opens once that is imported.

    Args:
        config: The settings.
        data: Texts and labels of one's own instead of files.

    Raises:
        ModelError: The model can't be found or used, has no head for the task, or is of a family
            that computes something else than an ALBERT, or isn't BERT and is to share a part.
        InputError: So many groups, or so wide embeddings, can't be had of it.
        DataError: The data can't be used.
    """
    from compress.device import resolve_device, set_threads

    set_threads(config.threads)
    from compress.models.exits import warn_of_exits
    from compress.models.pretrained import task_config
    from compress.models.teachers import resolve_teacher
    from compress.sharing.albert import make_plan
    from compress.sharing.result import load_result
    from compress.work import open_work

    device = resolve_device(config.device)
    found = resolve_teacher(config.model, no_fallback=True)
    warn_of_exits(found.path)
    plan = make_plan(task_config(found.path, config.task), config)
    with open_work(config) as work:
        if work is None:
            return load_result(config.output_dir)
        return _run(config, plan, found, work, device, data)


def _run(
    config: ShareConfig,
    plan: Plan,
    found: ResolvedTeacher,
    work: Path,
    device: torch.device,
    data: TaskData | None,
) -> ShareResult:
    from compress.bundles.lineage import model_place, save_lineage
    from compress.data.load import load_data
    from compress.distillation.recovery import ready_with_head
    from compress.distillation.sharing_run import SharingRun
    from compress.models.sentence_layout import read_layout
    from compress.sharing.result import RESULT_NAME
    from compress.training.teacher_step import save_checkpoint

    data = data or load_data(config, task=config.task, seed=config.seed)
    ready = ready_with_head(
        found.path,
        data,
        config,
        teacher_labels=config.teacher_labels,
        work=work,
        device=device,
    )
    run = SharingRun(config, plan, ready, data, work)
    run.recover()
    layout = read_layout(found.path, config.pooling) if run.head.pooling else None
    save_checkpoint(run.model, ready.tokenizer_dir, work / "shared", head=run.head, layout=layout)
    result = run.result(found, work / "shared")
    with whole_directory(config.output_dir) as building:
        shutil.copytree(work / "shared", building, dirs_exist_ok=True)
        write_json(building / RESULT_NAME, asdict(result))
        save_run(config, building)
        save_lineage(building, found.path, config, data, baseline=model_place(found.path))
    logger.info("Wrote %s", config.output_dir)
    return result


def command(config: ShareConfig) -> None:
    """Run the step, and print what it came to."""
    from compress.sharing.result import format_result

    print(format_result(share(config)))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            ShareConfig,
            command,
            prog="python -m compress.share",
            tables={"list-teachers": list_teachers},
        )
    )
