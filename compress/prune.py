"""``python -m compress.prune``: cut what matters least out of a fine-tuned model."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from compress.options import StepModule, main, save_run
from compress.pruning.config import PruneConfig as PruneConfig
from edgebert.files import whole_directory, write_json

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from compress.data.load import TaskData
    from compress.distillation.pruning_speedup import SpeedMeter
    from compress.models.teachers import ResolvedTeacher
    from compress.pruning.plan import Plan
    from compress.pruning.result import PruneResult, Zeros
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)


def prune(config: PruneConfig, *, data: TaskData | None = None) -> PruneResult:
    """Write a model without the heads, neurons, layers or dimensions that matter least.

    ``output_dir`` becomes a Hugging Face checkpoint with tokenizer, head and sentence files,
    ``prune.json`` and ``run.json``. Neurons, layers and dimensions are gone from it; a pruned head
    is zeros there, as no configuration can tell its absence, and gone from every artifact that is
    exported. With ``unstructured`` nothing is gone: single weights are zero, which makes a
    compressed file smaller and no engine faster. How fast the result is, is measured in any case.

    Args:
        config: The settings.
        data: Texts and labels of one's own instead of files.

    Raises:
        ModelError: The model can't be found or used, has no head for the task, or nothing of what
            is asked can be cut out of its family.
        InputError: So much can't be cut, the speed can't be reached, or there are no labels for the
            importance.
        BackendUnavailableError: The engine that was asked for is not installed.
        DataError: The data can't be used.
    """
    from compress.device import resolve_device, set_threads

    set_threads(config.threads)
    from compress.models.exits import warn_of_exits
    from compress.models.teachers import resolve_teacher
    from compress.pruning.result import load_result
    from compress.work import open_work

    device = resolve_device(config.device)
    found = resolve_teacher(config.model, no_fallback=True)
    warn_of_exits(found.path)
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
    from compress.distillation.pruning_importance import needs_truth
    from compress.distillation.pruning_rounds import PruningRun
    from compress.distillation.recovery import ready_with_head
    from compress.models.sentence_layout import read_layout
    from compress.training.teacher_step import save_checkpoint

    truth = needs_truth(config)
    data = data or load_data(config, task=config.task, seed=config.seed, score_train=truth)
    ready = ready_with_head(
        found.path,
        data,
        config,
        teacher_labels=config.teacher_labels,
        work=work,
        device=device,
    )
    meter = _speed_meter(config, ready, work)
    run = PruningRun(config, ready, data, work)
    if config.target_speedup is not None:
        run.plan = _speed_plan(config, ready, work, meter)
    for number in range(1, config.rounds + 1):
        run.round(number)
    layout = read_layout(found.path, config.pooling) if run.head.pooling else None
    save_checkpoint(run.model, ready.tokenizer_dir, work / "pruned", head=run.head, layout=layout)
    with meter.beside(ready.model, ready.encoded.dev.head) as timed:
        speed = timed(run.model, run.head)
    zeros = _zeros(run.model, found.path, work / "pruned") if config.unstructured else None
    result = run.result(found, work / "pruned", speed=speed, zeros=zeros)
    _write(config, found.path, work / "pruned", result, data)
    return result


def _write(
    config: PruneConfig, source: Path, pruned: Path, result: PruneResult, data: TaskData
) -> None:
    from compress.bundles.lineage import model_place, save_lineage
    from compress.pruning.result import RESULT_NAME

    with whole_directory(config.output_dir) as building:
        shutil.copytree(pruned, building, dirs_exist_ok=True)
        write_json(building / RESULT_NAME, asdict(result))
        save_run(config, building)
        save_lineage(building, source, config, data, baseline=model_place(source))
    logger.info("Wrote %s", config.output_dir)


def _speed_meter(config: PruneConfig, ready: ReadyTeacher, work: Path) -> SpeedMeter:
    """Time on an engine; zeros on torch, where nobody can say that another engine skips them."""
    import torch

    from compress.distillation.pruning_speedup import SpeedMeter, choose_engine

    return SpeedMeter(
        engine="torch" if config.unstructured else choose_engine(config.backend),
        threads=torch.get_num_threads(),
        tokens=ready.encoded.dev.token_stream,
        max_length=config.max_length,
        folder=work / "latency",
    )


def _speed_plan(config: PruneConfig, ready: ReadyTeacher, work: Path, meter: SpeedMeter) -> Plan:
    """Search for what must go; a resumed run takes what it found, as clocks never say the same."""
    from compress.distillation.pruning_speedup import plan_speedup
    from compress.pruning.plan import Plan

    file = work / "search" / "plan.json"
    if file.is_file():
        return Plan(**json.loads(file.read_text(encoding="utf-8")))
    plan = plan_speedup(
        ready.model,
        ready.encoded.dev.head,
        wanted=config.target_speedup or 1.0,
        units=config.units,
        meter=meter,
    )
    file.parent.mkdir(exist_ok=True)
    write_json(file, asdict(plan))
    return plan


def _zeros(model: PreTrainedModel, before: Path, after: Path) -> Zeros:
    from compress.pruning.result import Zeros
    from compress.pruning.sparse import gzip_bytes, zero_share

    zeros, weights = zero_share(model)
    return Zeros(
        zeros=zeros,
        weights=weights,
        gzip_before_bytes=gzip_bytes(before),
        gzip_after_bytes=gzip_bytes(after),
    )


def command(config: PruneConfig) -> None:
    from compress.pruning.result import format_result

    print(format_result(prune(config)))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            PruneConfig,
            command,
            prog="python -m compress.prune",
            tables={"list-teachers": list_teachers},
        )
    )
