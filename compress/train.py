"""``python -m compress.train``: fine-tune a full-size model on a task's own data."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.options import StepModule, main, option, save_run
from compress.settings import TrainingConfig
from edgebert.files import whole_directory, write_json

if TYPE_CHECKING:
    import torch

    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.training.finetune import LossTerm

logger = logging.getLogger(__name__)

METRICS_NAME = "metrics.json"


@dataclass(frozen=True, kw_only=True)
class TrainConfig(TrainingConfig):
    """Fine-tune a full-size model on a task's own data."""

    model: str = option(help="Alias, checkpoint directory or hub id", aliases=("teacher",))
    no_fallback: bool = option(False, help="Fail where the model can't be had, take no other")
    output_dir: Path = option(Path("teacher"), help="Where the checkpoint goes")


def train(
    config: TrainConfig,
    *,
    data: TaskData | None = None,
    extra_terms: Mapping[str, LossTerm] | None = None,
) -> dict[str, Any]:
    """Fine-tune a model, keep its best weights by dev, and score them on test once.

    ``output_dir`` becomes a Hugging Face checkpoint with ``metrics.json`` and ``run.json``.

    Args:
        config: The settings.
        data: Texts and labels of one's own instead of files.
        extra_terms: Loss terms of one's own by name, see `compress.training.finetune.fine_tune`.

    Returns:
        What ``metrics.json`` holds: ``{"dev": {"accuracy": …}, "test": …}``.

    Raises:
        EdgeBertError: See `load_data` and `ready_teacher`.
    """
    import json

    from compress.device import resolve_device, set_threads

    set_threads(config.threads)
    from compress.models.teachers import resolve_teacher
    from compress.work import open_work

    device = resolve_device(config.device)
    found = resolve_teacher(config.model, no_fallback=config.no_fallback)
    with open_work(config) as work:
        if work is None:
            finished: dict[str, Any] = json.loads((config.output_dir / METRICS_NAME).read_text())
            return finished
        return _run(config, found, work, device, data, extra_terms)


def _run(
    config: TrainConfig,
    found: ResolvedTeacher,
    work: Path,
    device: torch.device,
    data: TaskData | None,
    extra_terms: Mapping[str, LossTerm] | None,
) -> dict[str, Any]:
    from compress.bundles.lineage import save_lineage, weights_hash
    from compress.data.load import load_data
    from compress.training.dev_score import DevScore
    from compress.training.final_probe import final_probe
    from compress.training.teacher_step import ready_teacher

    data = data or load_data(config, task=config.task, seed=config.seed, score_train=True)
    ready = ready_teacher(
        found.path,
        data,
        config,
        work=work,
        device=device,
        learning_rate=config.learning_rate,
        num_train_epochs=config.num_train_epochs,
        always_train=True,
        extra_terms=extra_terms,
    )
    metrics: dict[str, Any] = {"dev": ready.dev, "test": None}
    test = final_probe(ready, data, config)
    if test is not None:
        metrics["test"] = DevScore(test, teacher=ready.model)(ready.model)
    metrics["model"] = {"requested": found.requested, "used": found.used, "note": found.note}
    with whole_directory(config.output_dir) as building:
        shutil.copytree(ready.directory, building, dirs_exist_ok=True)
        write_json(building / METRICS_NAME, metrics)
        save_run(config, building)
        place = {
            "directory": str(config.output_dir.absolute()),
            "weights_sha256": weights_hash(building),
        }
        save_lineage(building, found.path, config, data, model=found.used, baseline=place)
    logger.info("Wrote %s", config.output_dir)
    return metrics


def command(config: TrainConfig) -> None:
    import json

    print(json.dumps(train(config)))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            TrainConfig,
            command,
            prog="python -m compress.train",
            tables={"list-teachers": list_teachers},
        )
    )
