"""Share a model's weights: try each start, keep the better one, let it imitate the whole."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from compress.distillation.recovery import Recovery
from compress.models.vocabulary import vocab_rows
from compress.sharing.albert import Plan, Start, to_albert
from compress.sharing.partly import share_part
from compress.sharing.result import ShareResult, Side
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.sharing.config import ShareConfig
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)

_STARTS: tuple[Start, ...] = ("mean", "first")  # the first one wins where both are as good


class SharingRun:
    """A model that shares its weights, beside the one that doesn't.

    Attributes:
        model: The one that shares, in eval mode.
        head: What its outputs mean.
        start: What its groups began with.
        starts: Metrics on dev after each start.
    """

    def __init__(
        self, config: ShareConfig, plan: Plan, teacher: ReadyTeacher, data: TaskData, work: Path
    ) -> None:
        """Share, from the start that is better on dev.

        Args:
            config: The settings.
            plan: What the model becomes.
            teacher: The model as it was given.
            data: Of the task.
            work: The run's work directory.

        Raises:
            ModelError: The model has parts that can't be had with shared weights.
        """
        self._config, self._teacher, self._work = config, teacher, work
        self._recovery = Recovery(config, teacher, data, work)
        layers = int(teacher.model.config.num_hidden_layers)
        starts = _STARTS if plan.groups < layers else _STARTS[:1]  # of one layer they are the same
        models = {start: _shared(teacher, plan, start) for start in starts}
        self.head = self._recovery.head_of(models[starts[0]])
        self.start, self.starts = self._measured(models)
        self.model = models[self.start]
        self._dev: dict[str, float] = {}

    def recover(self) -> None:
        """Let the model imitate the one that it was, if that is asked for, and measure it."""
        layers, epochs = int(self.model.config.num_hidden_layers), self._config.num_train_epochs
        if epochs:
            self.model = self._recovery.train(
                self.model,
                self.head,
                layer_map=tuple(range(1, layers + 1)),
                folder=self._work / "recovery",
            )
        self._dev = self._recovery.score(
            self.model,
            self.head,
            when="after the recovery" if epochs else "without recovery",
            remedy="Give more --num-hidden-groups or a larger --embedding-size, or recover longer.",
        )

    def result(self, found: ResolvedTeacher, directory: Path) -> ShareResult:
        """Sum up.

        Args:
            found: Where the model came from.
            directory: Where the one that shares was written.
        """
        whole, tested = self._teacher.model, self._recovery.tested
        return ShareResult(
            model=found.used,
            task=self._config.task,
            metric=self._recovery.dev_score(self.head).metric,
            share=self._config.share,
            start=self.start,
            starts={str(start): dev for start, dev in self.starts.items()},
            before=Side.of(whole, found.path, dev=self._teacher.dev, test=tested(whole)),
            after=Side.of(
                self.model, directory, dev=self._dev, test=tested(self.model, head=self.head)
            ),
            warnings=tuple(self._recovery.warnings),
        )

    def _measured(
        self, models: dict[Start, PreTrainedModel]
    ) -> tuple[Start, dict[Start, dict[str, float]]]:
        """Measure each start on dev and choose; where two are as good, the earlier one."""
        score, found = self._recovery.dev_score(self.head), dict[Start, dict[str, float]]()
        goodness: dict[Start, float] = {}
        for start, model in models.items():
            try:
                found[start] = score(model)
            except ModelError as error:  # vectors that all point the same way
                logger.info("start %s: %s", start, error)
                found[start] = {}
            value = found[start].get(score.metric, math.nan)
            goodness[start] = value if score.greater_is_better else -value
            logger.info("start %s: dev %s %.4f", start, score.metric, value)
        best = max(models, key=lambda start: (not math.isnan(goodness[start]), goodness[start]))
        return best, found


def _shared(teacher: ReadyTeacher, plan: Plan, start: Start) -> PreTrainedModel:
    if plan.share != "all":
        return share_part(teacher.model, plan, start=start)
    return to_albert(teacher.model, plan, start=start, counts=token_counts(teacher))


def token_counts(teacher: ReadyTeacher) -> Tensor:
    """Count each token of the vocabulary in the train rows, int64 ``[V]``."""
    rows = vocab_rows(teacher.model)
    return torch.from_numpy(
        np.bincount(np.concatenate(teacher.encoded.train.rows.encoded.input_ids), minlength=rows)
    )
