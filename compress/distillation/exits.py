"""Train the exits of a student that is finished: its own last layer is their teacher.

The student's weights don't move any more, so that through all of its layers it is bit for bit the
student without exits (Liu et al., 2020: self-distillation of the branches, the backbone frozen).
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from compress.data.encoding import RowArray
from compress.models.exits import ExitHeads, ExitModel, hidden_and_logits
from compress.models.task_head import TaskHead
from compress.reporting.curves import phase_record
from compress.reporting.records import PhaseRecord
from compress.scoring.exit_scores import by_exit
from compress.scoring.probe import torch_rows
from compress.scoring.scores import score_rows
from compress.training.checkpoint import weights_sha256
from compress.training.loop import LoopSettings, train_loop
from compress.training.losses import soft_target_loss
from compress.training.tensorboard import event_writer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.distillation.config import DistillConfig
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)

PHASE, METRIC = "exits", "mean_of_exits"
# Of the student's rate: heads alone bear more. After 235 steps on SST-2 the exit of layer 1 of 6
# scored 0.835 on dev with 5 and 0.825 with 1.
RATE = 5.0


def train_exits(
    student: PreTrainedModel,
    head: TaskHead,
    teacher: ReadyTeacher,
    config: DistillConfig,
    *,
    work: Path,
    train_sha256: str,
) -> tuple[TaskHead, PhaseRecord]:
    """Train a head after each layer of a student but the last.

    Args:
        student: Finished; left as it is, in eval mode.
        head: What its outputs mean.
        teacher: Its data is used, not its answers.
        config: Of the run; as many epochs as its last phase.
        work: Where checkpoints go.
        train_sha256: Of the training rows.

    Returns:
        The head with its exits, and the curves.
    """
    student.train(False)
    train, device = teacher.encoded.train, student.device
    exits = ExitHeads(student, budget=config.exit_metric_budget).to(device)
    dev = dataclasses.replace(teacher.encoded.dev, head=head)

    def step(items: RowArray) -> dict[str, Tensor]:
        batch = train.batch(items, device=device)
        with torch.no_grad():
            *hidden, final = hidden_and_logits(student, batch)
        return {
            f"exit_{layer}": soft_target_loss(
                own(states, batch["attention_mask"]).float(), final.float(), config.temperature
            )
            for layer, (own, states) in enumerate(zip(exits, hidden, strict=True), start=1)
        }

    def evaluate() -> dict[str, float]:
        rows = by_exit(torch_rows(ExitModel(student, exits), dev).values, len(exits) + 1)
        scores = [score_rows(dev, own, rows[-1]).value for own in rows[:-1]]
        return {METRIC: sum(scores) / len(scores)}

    settings = LoopSettings.from_config(config, metric_name=METRIC)
    result = train_loop(
        modules=nn.ModuleDict({"exits": exits}),
        step=step,
        batches=train.batches(batch_size=config.per_device_train_batch_size, seed=config.seed),
        settings=dataclasses.replace(settings, learning_rate=RATE * settings.learning_rate),
        checkpoint_dir=work / PHASE,
        evaluate=evaluate,
        progress_label=PHASE,
        resume=config.resume,
        on_entry=event_writer(config, PHASE),
        fingerprint={
            "student": weights_sha256(student),
            "train": train_sha256,
            "tokens": train.rows.encoded.sha256,
            "dev": dev.split.sha256,
            "temperature": f"{config.temperature:g}",
        },
    )
    record = phase_record(
        PHASE,
        result.history,
        result.evals,
        metric=METRIC,
        best_step=result.best_step,
        note="the student's own weights stay as they are; its last layer teaches the exits",
    )
    return dataclasses.replace(head, exits=exits), record
