"""Rounds of pruning: measure what matters least, cut it, let the rest imitate the whole."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compress.distillation.pruning_importance import ImportanceMeter
from compress.distillation.recovery import Recovery
from compress.models.blocks import model_type
from compress.models.dense import student_dense
from compress.models.heads import pruned_heads
from compress.pruning.plan import Plan, make_plan
from compress.pruning.result import Layer, PruneResult, Round, Side, Speed, Zeros
from compress.pruning.sparse import growing_zeros, zero_weights
from compress.pruning.units import choose_heads, cut_heads, cut_layers, cut_neurons, shape_of
from compress.pruning.width import narrow
from compress.settings import TrainingConfig
from edgebert.errors import InputError

if TYPE_CHECKING:
    from compress.data.load import TaskData
    from compress.models.teachers import ResolvedTeacher
    from compress.pruning.config import PruneConfig
    from compress.training.teacher_step import ReadyTeacher

AT_THE_END = 10**9  # as eval_steps: dev is measured after the last step alone


class PruningRun:
    """A model that gets smaller, beside the one that it was.

    Attributes:
        model: A copy of the teacher's, cut in every round; in eval mode.
        head: What its outputs mean.
        plan: What goes in all.
        layers: Its layers, by their numbers in the teacher, from 0.
        heads: Those of each of its layers, by their numbers in the teacher, from 0; pruned ones are
            among them.
        basis: Which of the teacher's axes are its own, float64 ``[H_teacher, H]``; None for all.
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
            InputError: So much can't be cut, or there are no labels for the importance.
        """
        self._config, self._teacher, self._work = config, teacher, work
        self.model = copy.deepcopy(teacher.model)
        self.whole = shape_of(self.model)
        self.plan = make_plan(self.whole, config, family=model_type(self.model))
        self._meter = ImportanceMeter(config, teacher, data)
        count = int(self.model.config.num_attention_heads)
        self.layers = list(range(self.whole.layers))
        self.heads = [list(range(count)) for _ in self.layers]
        self.basis: Tensor | None = None
        self._recovery = Recovery(_recovery_config(config), teacher, data, work)
        self.head = self._recovery.head_of(self.model)
        self.rounds: list[Round] = []
        self._done = Plan()

    def round(self, number: int) -> None:
        """Cut one part of what is planned, and recover; rounds count from 1."""
        folder = self._work / f"round-{number}"
        if _gradual(self._config):
            self._grow_zeros(folder)
            recovered = self._score("after the last step")
            self.rounds.append(Round(params=self.whole.params, cut={}, recovered=recovered))
            return
        goal = self.plan.part(number, self._config.rounds)
        self._cut(goal)
        self._done = goal
        cut = self._score(f"round {number}, after the cut")
        after = None
        if self._config.num_train_epochs:
            self._recover(folder)
            after = self._score(f"round {number}, after the recovery")
        self.rounds.append(Round(params=shape_of(self.model).params, cut=cut, recovered=after))

    def result(
        self,
        found: ResolvedTeacher,
        directory: Path,
        *,
        speed: Speed,
        zeros: Zeros | None,
    ) -> PruneResult:
        """Sum up.

        Args:
            found: Where the model came from.
            directory: Where the pruned one was written.
            speed: Of both.
            zeros: Of single weights, where such went.
        """
        shape, recovery, last = shape_of(self.model), self._recovery, self.rounds[-1]
        dev = last.cut if last.recovered is None else last.recovered
        tested = [recovery.tested(self._teacher.model), recovery.tested(self.model, head=self.head)]
        self._tell_shortfall(speed)
        return PruneResult(
            model=found.used,
            task=self._config.task,
            importance=self._config.importance,
            metric=recovery.dev_score(self.head).metric,
            before=Side.of(self.whole, self._teacher.dev, tested[0], found.path),
            after=Side.of(shape, dev, tested[1], directory),
            layers=self._kept(),
            rounds=tuple(self.rounds),
            speed=speed,
            speedup=speed.ratio,
            target_speedup=self._config.target_speedup,
            unstructured=zeros,
            warnings=tuple(recovery.warnings),
        )

    def _tell_shortfall(self, speed: Speed) -> None:
        target = self._config.target_speedup
        if target is not None and speed.ratio < target:
            self._recovery.warn(
                f"{target:g} times as fast was asked for, and {speed.ratio:.2f} is measured at the "
                "end, after a search that found it; ask for a little more."
            )

    def _kept(self) -> tuple[Layer, ...]:
        neurons = shape_of(self.model).neurons
        gone = pruned_heads(self.model) or [[]] * len(self.layers)
        return tuple(
            Layer(
                layer=number + 1,
                heads=tuple(head for at, head in enumerate(heads) if at not in without),
                neurons=neurons,
            )
            for number, heads, without in zip(self.layers, self.heads, gone, strict=True)
        )

    def _cut(self, goal: Plan) -> None:
        done, whole = self._done, self.whole
        if goal.layers > done.layers:
            self._cut_layers(whole.layers - goal.layers)
        if goal.widths > done.widths:
            self._cut_width(whole.hidden_size // whole.head_size - goal.widths)
        if goal.heads > done.heads or goal.neurons > done.neurons:
            importance = self._meter.units(self.model, self.head)
            more = goal.heads - done.heads
            if more:
                gone = choose_heads(importance.heads, pruned_heads(self.model), more)
                cut_heads(self.model, gone)
            cut_neurons(self.model, importance.neurons, whole.neurons - goal.neurons)
        if self._config.unstructured:
            zero_weights(self.model, self._config.sparsity or 0.0)

    def _cut_layers(self, count: int) -> None:
        chosen = self._meter.layers(self.model, self.head, count=count)
        cut_layers(self.model, chosen)
        self.layers = [self.layers[number] for number in chosen]
        self.heads = [self.heads[number] for number in chosen]
        self.head = dataclasses.replace(
            self.head, pooling_layers=min(self.head.pooling_layers, len(chosen))
        )

    def _cut_width(self, count: int) -> None:
        elements, importance = self._meter.elements(self.model, self.head)
        made = narrow(self.model, elements, importance.heads, count=count)
        before = int(self.model.config.hidden_size)
        chosen = torch.eye(before, dtype=torch.float64)[:, made.hidden]  # [H before, H now]
        self.basis = chosen if self.basis is None else self.basis @ chosen
        self.model = made.model
        self.heads = [
            [numbers[at] for at in kept]
            for numbers, kept in zip(self.heads, made.heads, strict=True)
        ]
        dense = student_dense(
            self.head.dense, hidden_size=len(made.hidden), basis=chosen, seed=self._config.seed
        )
        self.head = dataclasses.replace(
            self.head, dense=None if dense is None else dense.to(self.model.device)
        )

    def _grow_zeros(self, folder: Path) -> None:
        config, train = self._config, self._teacher.encoded.train
        batches = train.batches(batch_size=config.per_device_train_batch_size, seed=config.seed)
        passes = training_passes(config, len(batches))
        with growing_zeros(
            self.model,
            sparsity=config.sparsity or 0.0,
            passes=passes,
            importance="movement" if config.importance == "movement" else "magnitude",
        ):
            self._recover(folder)

    def _recover(self, folder: Path) -> None:
        self.model = self._recovery.train(
            self.model,
            self.head,
            layer_map=tuple(number + 1 for number in self.layers),
            folder=folder,
            basis=self.basis,
        )

    def _score(self, when: str) -> dict[str, float]:
        remedy = "Cut less, in more --rounds, or recover longer."
        return self._recovery.score(self.model, self.head, when=when, remedy=remedy)


def _gradual(config: PruneConfig) -> bool:
    """Whether zeros grow in the recovery, so that there is no cut before it."""
    return config.unstructured and config.num_train_epochs > 0


def _recovery_config(config: PruneConfig) -> TrainingConfig:
    """Let the last weights count where zeros grow: earlier ones have fewer, so score better."""
    if not _gradual(config):
        return config
    names = [field.name for field in dataclasses.fields(TrainingConfig)]
    shared = {name: getattr(config, name) for name in names}
    return TrainingConfig(**{**shared, "eval_steps": AT_THE_END})


def training_passes(config: PruneConfig, batches: int) -> int:
    """Say how often a recovery runs the model: once a batch.

    Args:
        config: The settings.
        batches: Of one epoch.

    Raises:
        InputError: So few that zeros can't grow.
    """
    passes = batches * config.num_train_epochs
    if config.max_steps is not None:
        size = config.gradient_accumulation_steps
        epochs, steps = divmod(config.max_steps, -(-batches // size))
        passes = epochs * batches + min(steps * size, batches)
    if passes < 2:
        raise InputError(
            f"Zeros grow over the batches of the recovery, and {passes} is too few for it; give "
            "more rows, --num-train-epochs or --max-steps, or a smaller "
            "--per-device-train-batch-size."
        )
    return passes
