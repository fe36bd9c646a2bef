"""Rounds of pruning: measure what matters least, cut it, let the rest imitate the whole."""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from compress.distillation.config import DistillConfig
from compress.distillation.imitate import student_head, train_student
from compress.models.blocks import model_type
from compress.models.capture import Wanted, forward_features
from compress.models.heads import pruned_heads
from compress.models.layer_map import layer_map
from compress.models.student import BuiltStudent
from compress.models.task_head import TaskHead
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
from compress.settings import TrainingConfig
from compress.training.dev_score import DevScore
from compress.training.final_probe import final_probe
from compress.training.finetune import true_term
from compress.training.phase import Phase
from compress.training.target_terms import logits_of
from compress.training.teacher_step import no_better_than_chance
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.pruning.config import PruneConfig
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)


class PruningRun:
    """A model that gets smaller, beside the one that it was.

    Attributes:
        model: A copy of the teacher's, cut in every round; in eval mode.
        head: What its outputs mean.
        kept: Its layers, by their numbers in the teacher, from 0.
        rounds: What each round did.
        warnings: What a reader must know.
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
        self.head = student_head(
            teacher.encoded.dev.head, BuiltStudent(self.model, "layers", None), seed=config.seed
        )
        if self.head.dense is not None:
            self.head.dense.to(self.model.device)
        self.rounds: list[Round] = []
        self.warnings: list[str] = []
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
        whole = Side.of(self.whole, self._teacher.dev, self._tested(self._teacher), found.path)
        cut = dataclasses.replace(self._teacher, model=self.model)
        return PruneResult(
            model=found.used,
            task=self._config.task,
            importance=self._config.importance,
            metric=self._dev_score().metric,
            before=whole,
            after=Side.of(shape, dev, self._tested(cut, head=self.head), directory),
            layers=tuple(layers),
            rounds=tuple(self.rounds),
            warnings=tuple(self.warnings),
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
        shared = {
            field.name: getattr(self._config, field.name)
            for field in dataclasses.fields(TrainingConfig)
        }
        imitation = train_student(
            BuiltStudent(self.model.train(), "layers", None),
            self._teacher,
            self._data,
            DistillConfig(teacher=self._config.model, **shared),
            head=self.head,
            layer_map=tuple(number + 1 for number in self.kept),
            work=folder,
            cache_dir=self._work / "cache",
        )
        self.model = imitation.built.model
        self.model.train(False)

    def _dev_score(self) -> DevScore:
        dev = self._teacher.encoded.dev
        return DevScore(
            dataclasses.replace(dev, head=self.head),
            metric=self._config.metric_for_best_model,
            teacher=self._teacher.model,
            teacher_head=dev.head,
        )

    def _score(self, when: str) -> dict[str, float]:
        """Measure on dev; tell where nothing of the task is left."""
        score = self._dev_score()
        dev = self._measured(score, self.model, when)
        if not dev:
            return {}
        logger.info("%s: dev %s %.4f", when, score.metric, dev[score.metric])
        if found := no_better_than_chance(dev, self._data, self._config.task):
            self._warn(f"{when}: {found}. Cut less, in more --rounds, or recover longer.")
        return dev

    def _tested(
        self, teacher: ReadyTeacher, *, head: TaskHead | None = None
    ) -> dict[str, float] | None:
        """Measure on test, if there is one; a threshold is chosen on dev for each model anew."""
        probe = final_probe(teacher, self._data, self._config)
        if probe is None:
            return None
        probe = dataclasses.replace(probe, head=head or probe.head)
        score = DevScore(
            probe, teacher=self._teacher.model, teacher_head=self._teacher.encoded.dev.head
        )
        return self._measured(score, teacher.model, "on test")

    def _measured(self, score: DevScore, model: nn.Module, when: str) -> dict[str, float]:
        try:
            return score(model)
        except ModelError as error:  # vectors that all point the same way
            self._warn(f"{when}: {error}")
            return {}

    def _warn(self, text: str) -> None:
        logger.warning("%s", text)
        self.warnings.append(text)


def _require_truth(teacher: ReadyTeacher) -> None:
    train = teacher.encoded.train
    if train.targets is None and train.masking is None:
        raise InputError(
            "--importance taylor measures a loss on what is true, and the train rows have no "
            "labels or scores; give --label-column, or --importance magnitude."
        )
