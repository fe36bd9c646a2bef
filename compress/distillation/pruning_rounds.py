"""Rounds of pruning: measure what matters least, cut it, let the rest imitate the whole."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compress.distillation.recovery import Recovery
from compress.models.blocks import model_type
from compress.models.capture import Wanted, forward_features
from compress.models.heads import pruned_heads
from compress.models.layer_map import layer_map
from compress.pruning.importance import (
    Importance,
    magnitude_importance,
    needed_layers,
    taylor_importance,
)
from compress.pruning.result import Layer, PruneResult, Round, Side
from compress.pruning.units import (
    Plan,
    choose_heads,
    cut_heads,
    cut_layers,
    cut_neurons,
    make_plan,
    shape_of,
)
from compress.training.finetune import true_term
from compress.training.phase import Phase
from compress.training.target_terms import logits_of
from edgebert.errors import InputError

if TYPE_CHECKING:
    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.pruning.config import PruneConfig
    from compress.training.teacher_step import ReadyTeacher


class PruningRun:
    """A model that gets smaller, beside the one that it was.

    Attributes:
        model: A copy of the teacher's, cut in every round; in eval mode.
        head: What its outputs mean.
        kept: Its layers, by their numbers in the teacher, from 0.
        rounds: What each round did.
    """

    def __init__(
        self, config: PruneConfig, teacher: ReadyTeacher, data: TaskData, work: Path
    ) -> None:
        """Plan the cuts.

        Args:
            config: The settings.
            teacher: The model as it was given.
            data: Of the task.
            work: The run's work directory; each round has a folder in it.

        Raises:
            ModelError: Nothing of what is asked can be cut out of its family.
            InputError: So much can't be cut, or there are no labels for ``taylor``.
        """
        self._config, self._teacher, self._data, self._work = config, teacher, data, work
        self.model = copy.deepcopy(teacher.model)
        self.whole = shape_of(self.model)
        self.plan = make_plan(self.whole, config, family=model_type(self.model))
        self.kept = list(range(self.whole.layers))
        self._recovery = Recovery(config, teacher, data, work)
        self.head = self._recovery.head_of(self.model)
        self.rounds: list[Round] = []
        self._done = Plan()
        if config.importance == "taylor" and not self.plan.layers:
            _require_truth(teacher)

    def round(self, number: int) -> None:
        """Cut one part of what is planned, and recover; rounds count from 1."""
        goal = self.plan.part(number, self._config.rounds)
        self._cut(goal)
        self._done = goal
        cut = self._score(f"round {number}, after the cut")
        recovered = None
        if self._config.num_train_epochs:
            self._recover(self._work / f"round-{number}")
            recovered = self._score(f"round {number}, after the recovery")
        self.rounds.append(Round(params=shape_of(self.model).params, cut=cut, recovered=recovered))

    def result(self, found: ResolvedTeacher, directory: Path) -> PruneResult:
        """Sum up.

        Args:
            found: Where the model came from.
            directory: Where the pruned one was written.
        """
        shape, pruned = shape_of(self.model), pruned_heads(self.model)
        count = int(self.model.config.num_attention_heads)
        gone = pruned or [[]] * shape.layers
        layers = [
            Layer(
                layer=number + 1,
                heads=tuple(head for head in range(count) if head not in without),
                neurons=shape.neurons,
            )
            for number, without in zip(self.kept, gone, strict=True)
        ]
        last = self.rounds[-1]
        dev = last.cut if last.recovered is None else last.recovered
        whole = Side.of(
            self.whole, self._teacher.dev, self._recovery.tested(self._teacher.model), found.path
        )
        tested = self._recovery.tested(self.model, head=self.head)
        return PruneResult(
            model=found.used,
            task=self._config.task,
            importance=self._config.importance,
            metric=self._recovery.dev_score(self.head).metric,
            before=whole,
            after=Side.of(shape, dev, tested, directory),
            layers=tuple(layers),
            rounds=tuple(self.rounds),
            warnings=tuple(self._recovery.warnings),
        )

    def _cut(self, goal: Plan) -> None:
        if goal.layers > self._done.layers:
            chosen = self._chosen_layers(self.whole.layers - goal.layers)
            cut_layers(self.model, chosen)
            self.kept = [self.kept[number] for number in chosen]
            self.head = dataclasses.replace(
                self.head, pooling_layers=min(self.head.pooling_layers, len(chosen))
            )
        if goal.heads > self._done.heads or goal.neurons > self._done.neurons:
            importance = self._importance()
            more = goal.heads - self._done.heads
            if more:
                gone = choose_heads(importance.heads, pruned_heads(self.model), more)
                cut_heads(self.model, gone)
            cut_neurons(self.model, importance.neurons, self.whole.neurons - goal.neurons)

    def _importance(self) -> Importance:
        if self._config.importance == "magnitude":
            return magnitude_importance(self.model)
        encoded = dataclasses.replace(
            self._teacher.encoded,
            dev=dataclasses.replace(self._teacher.encoded.dev, head=self.head),
        )
        phase = Phase(
            name="importance", terms={"true": true_term(encoded, self._config, self._data)}
        )

        def loss(batch: Mapping[str, Tensor]) -> Tensor:
            features = forward_features(self.model, batch, phase.student_wanted)
            return phase.losses(features, features, batch)["true"]

        return taylor_importance(self.model, self._batches(), loss)

    def _chosen_layers(self, count: int) -> list[int]:
        if self._config.importance == "magnitude":
            spaced = layer_map("alternate", count, len(self.kept))
            return [layer - 1 for layer in spaced]
        return needed_layers(self.model, self._batches(), self._output, count=count)

    def _output(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Run the model: vectors of an embedder, logits of the real tokens, or of each row."""
        wanted = Wanted(logits=not self.head.pooling, pooled=self.head.pooling)
        features = forward_features(self.model, batch, wanted)
        if features.pooled is not None:
            return features.pooled
        logits = logits_of(features)
        return logits[batch["attention_mask"].bool()] if logits.dim() == 3 else logits

    def _batches(self) -> list[dict[str, Tensor]]:
        """Give some batches of train rows, the same in every round."""
        train, config = self._teacher.encoded.train, self._config
        order = train.batches(batch_size=config.per_device_train_batch_size, seed=config.seed)
        torch.manual_seed(config.seed)  # of what fill-mask hides
        device = self._teacher.model.device
        rows = order.epoch(0)[: config.importance_batches]
        return [train.batch(items, device=device) for items in rows]

    def _recover(self, folder: Path) -> None:
        kept = tuple(number + 1 for number in self.kept)
        self.model = self._recovery.train(self.model, self.head, layer_map=kept, folder=folder)

    def _score(self, when: str) -> dict[str, float]:
        remedy = "Cut less, in more --rounds, or recover longer."
        return self._recovery.score(self.model, self.head, when=when, remedy=remedy)


def _require_truth(teacher: ReadyTeacher) -> None:
    train = teacher.encoded.train
    if train.targets is None and train.masking is None:
        raise InputError(
            "--importance taylor measures a loss on what is true, and the train rows have no "
            "labels or scores; give --label-column, or --importance magnitude."
        )
