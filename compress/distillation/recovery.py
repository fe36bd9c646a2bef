"""A model that was made smaller imitates the one that it was, and both are measured alike."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from compress.distillation.config import DistillConfig
from compress.distillation.imitate import student_head, train_student
from compress.models.loading import load_teacher
from compress.models.student import BuiltStudent
from compress.models.task_head import TaskHead
from compress.settings import TrainingConfig
from compress.training.dev_score import DevScore
from compress.training.final_probe import final_probe
from compress.training.teacher_step import ReadyTeacher, no_better_than_chance, ready_teacher
from edgebert.errors import ModelError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from compress.data.load import TaskData

logger = logging.getLogger(__name__)


def ready_with_head(
    path: Path,
    data: TaskData,
    config: TrainingConfig,
    *,
    teacher_labels: str | None,
    work: Path,
    device: torch.device,
) -> ReadyTeacher:
    """Load a model that has its head already, and score it.

    Args:
        path: Its checkpoint; the others are a run's, see `ready_teacher`.
        data: Of the task.
        config: How the run trains.
        teacher_labels: Names of its logits in their order, comma-separated, where it has none.
        work: The run's work directory.
        device: Where it runs.

    Raises:
        ModelError: It can't be used, has no head for the task, or has learned nothing.
    """
    loaded = load_teacher(
        path,
        task=config.task,
        labels=data.labels,
        problem_type=data.problem_type,
        teacher_labels=tuple(teacher_labels.split(",")) if teacher_labels else (),
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


class Recovery:
    """The model that was given: the teacher of those made of it, and what they are measured by.

    Attributes:
        teacher: The model as it was given.
        warnings: What a reader must know.
    """

    def __init__(
        self, config: TrainingConfig, teacher: ReadyTeacher, data: TaskData, work: Path
    ) -> None:
        """Take what a run has.

        Args:
            config: Its settings.
            teacher: The model as it was given.
            data: Of the task.
            work: The run's work directory, where the teacher's outputs are kept.
        """
        self._config, self._data, self._work = config, data, work
        self.teacher = teacher
        self.warnings: list[str] = []

    def head_of(self, model: PreTrainedModel) -> TaskHead:
        """Say what a smaller model's outputs mean; its Dense modules are its own."""
        head = student_head(
            self.teacher.encoded.dev.head,
            BuiltStudent(model, "layers", None),
            seed=self._config.seed,
        )
        if head.dense is not None:
            head.dense.to(model.device)
        return head

    def train(
        self,
        model: PreTrainedModel,
        head: TaskHead,
        *,
        layer_map: tuple[int, ...],
        folder: Path,
        basis: Tensor | None = None,
    ) -> PreTrainedModel:
        """Let a model imitate the one that it was; its weights are then the best on dev.

        Args:
            model: Of any family whose outputs mean what the teacher's do.
            head: What they mean.
            layer_map: 1-based layer of the teacher of each of its layers.
            folder: Where checkpoints go.
            basis: ``[H_teacher, H]`` of a narrower model: which of the teacher's axes are its own.

        Returns:
            The model, in eval mode.
        """
        shared = {
            field.name: getattr(self._config, field.name)
            for field in dataclasses.fields(TrainingConfig)
        }
        imitation = train_student(
            BuiltStudent(model.train(), "layers", basis),
            self.teacher,
            self._data,
            DistillConfig(teacher=str(self.teacher.directory), **shared),
            head=head,
            layer_map=layer_map,
            work=folder,
            cache_dir=self._work / "cache",
        )
        trained = imitation.built.model
        trained.train(False)
        return trained

    def dev_score(self, head: TaskHead) -> DevScore:
        """Give what measures a model on dev."""
        dev = self.teacher.encoded.dev
        return DevScore(
            dataclasses.replace(dev, head=head),
            metric=self._config.metric_for_best_model,
            teacher=self.teacher.model,
            teacher_head=dev.head,
        )

    def score(
        self, model: nn.Module, head: TaskHead, *, when: str, remedy: str
    ) -> dict[str, float]:
        """Measure a model on dev; warn where nothing of the task is left.

        Args:
            model: In eval mode.
            head: What its outputs mean.
            when: What was done to it, for the log.
            remedy: A sentence for the warning: what to do differently.

        Returns:
            Metrics by name; empty where nothing can be measured.
        """
        score = self.dev_score(head)
        dev = self._measured(score, model, when)
        if not dev:
            return {}
        logger.info("%s: dev %s %.4f", when, score.metric, dev[score.metric])
        if found := no_better_than_chance(dev, self._data, self._config.task):
            self.warn(f"{when}: {found}. {remedy}")
        return dev

    def tested(
        self, model: PreTrainedModel, *, head: TaskHead | None = None
    ) -> dict[str, float] | None:
        """Measure a model on test, if there is one; a threshold is chosen on dev for each anew.

        Args:
            model: The teacher's or one that was made of it.
            head: What its outputs mean, where that is not what the teacher's do.
        """
        measured = dataclasses.replace(self.teacher, model=model)
        probe = final_probe(measured, self._data, self._config)
        if probe is None:
            return None
        probe = dataclasses.replace(probe, head=head or probe.head)
        score = DevScore(
            probe, teacher=self.teacher.model, teacher_head=self.teacher.encoded.dev.head
        )
        return self._measured(score, model, "on test")

    def warn(self, text: str) -> None:
        """Log a warning and keep it for the result."""
        logger.warning("%s", text)
        self.warnings.append(text)

    def _measured(self, score: DevScore, model: nn.Module, when: str) -> dict[str, float]:
        try:
            return score(model)
        except ModelError as error:  # vectors that all point the same way
            self.warn(f"{when}: {error}")
            return {}
