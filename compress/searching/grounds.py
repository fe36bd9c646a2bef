"""What all trainings of a search stand on: the data, the teachers, what a shape may take."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compress.distillation.config import DistillConfig
from compress.distillation.imitate import Imitation, imitate
from compress.options import save_run
from compress.scoring.metrics import METRICS
from compress.scoring.scores import task_metric
from compress.searching.budget import Budget, Cost
from compress.searching.estimate import Estimator
from compress.searching.meter import ShapeMeter
from compress.searching.shapes import Shape, Space
from compress.searching.vocabularies import Vocabularies
from compress.training.teacher_step import no_better_than_chance

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.searching.config import SearchConfig

DOUBTFUL = 0.97  # times an estimated size: what is over the limit even so needs no export


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """What all trials stand on.

    Attributes:
        config: The settings.
        budget: Its limits.
        data: Of the task, without test: that is for the chosen one alone.
        space: What there is to choose from.
        vocabularies: The teachers.
        estimator: Counts weights.
        meter: Measures shapes.
        work: The run's work directory.
        metric: Picks the weights and counts.
        teacher_score: Of the whole teacher on dev.
    """

    config: SearchConfig
    budget: Budget
    data: TaskData
    space: Space
    vocabularies: Vocabularies
    estimator: Estimator
    meter: ShapeMeter
    work: Path
    metric: str
    teacher_score: float

    def kept(self, score: float, metric: str | None = None) -> float:
        """Give a score as a part of the teacher's, whichever way is better.

        Args:
            score: On dev.
            metric: Of the score; None for `metric`.
        """
        name = metric or self.metric
        theirs = self.vocabularies.whole.dev[name] if metric else self.teacher_score
        return score / theirs if METRICS[name] else theirs / max(score, 1e-12)

    def distill_config(self, shape: Shape, folder: Path, **changes: object) -> DistillConfig:
        """Write a training as the settings of ``compress.distill``, which makes it again."""
        fields = [field.name for field in dataclasses.fields(DistillConfig)]
        shared = {name: getattr(self.config, name) for name in fields}
        own = {
            "teacher": str(self.vocabularies.directory(shape.vocab_size)),
            "extra_teacher": self.vocabularies.extra_teachers(shape.vocab_size),
            "teacher_weights": self.vocabularies.teacher_weights(shape.vocab_size),
            "student": str(shape.architecture),
            "output_dir": folder,
            "backend": (self.config.engine,),
            "resume": False,
            "overwrite_output_dir": False,
        }
        return DistillConfig(**{**shared, **own, **changes})


@dataclass
class StepClock:
    """Takes the time of steps, without what is measured between them.

    Attributes:
        seconds: Of each step but the first ones.
    """

    seconds: list[float] = dataclasses.field(default_factory=list)
    last: float | None = None

    def entry(self, entry: Mapping[str, float]) -> None:
        """Take an entry of a loop's history, or of its measurements."""
        now = time.monotonic()
        if "loss" not in entry:
            self.last = None
            return
        if self.last is not None:
            self.seconds.append(now - self.last)
        self.last = now

    @property
    def step_s(self) -> float | None:
        """Give the mean of the steps' seconds; None before there are any."""
        return statistics.fmean(self.seconds) if self.seconds else None


def fits_by_estimate(grounds: Grounds, shape: Shape) -> str:
    """Say why a shape is too large by counting alone; empty where it may fit."""
    if grounds.budget.max_size_bytes is None:
        return ""
    engine, lengths = grounds.config.engine, grounds.meter.lengths
    least = min(
        grounds.estimator.size_bytes(shape, engine, name, lengths=lengths)
        for name in grounds.meter.precisions
    )
    reasons = grounds.budget.over(Cost(size_bytes=int(least * DOUBTFUL), latency_ms=0.0))
    return f"by estimate, {reasons[0]}" if reasons else ""


def fitting_cost(grounds: Grounds, shape: Shape) -> tuple[str, Cost] | str:
    """Find the precision in which a shape meets the limits, cheaply first.

    Returns:
        Its name and what it takes; or why there is none.
    """
    budget = grounds.budget
    if too_large := fits_by_estimate(grounds, shape):
        return too_large
    if slower := grounds.meter.too_slow(shape, budget):
        return slower
    costs = grounds.meter.costs(shape)
    if not costs:
        return f"{grounds.config.engine} can't hold it"
    good = {name: cost for name, cost in costs.items() if not budget.over(cost)}
    if not good:
        found = {name: budget.over(cost) for name, cost in costs.items()}
        return "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in found.items())
    best = min(good, key=lambda name: (budget.paid(good[name]), good[name].latency_ms))
    return best, good[best]


def teach(
    grounds: Grounds,
    shape: Shape,
    config: DistillConfig,
    *,
    folder: Path,
    listener: Callable[[Mapping[str, float]], None],
) -> Imitation:
    """Train a student of a shape as its settings say; they stand in ``folder/run.json``.

    Args:
        grounds: What it stands on.
        shape: Of the student.
        config: Of `Grounds.distill_config`.
        folder: Where checkpoints go.
        listener: Called with each entry of the last phase; what it raises ends the training.

    Raises:
        ModelError: The teacher of this vocabulary is no better than chance.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_run(config, folder)
    layers = shape.architecture.num_hidden_layers
    return imitate(
        grounds.vocabularies.ready(shape.vocab_size),
        grounds.data,
        config,
        work=folder,
        cache_dir=grounds.vocabularies.cache_dir(shape.vocab_size, layers),
        ensemble=grounds.vocabularies.ensemble(shape.vocab_size),
        on_entry=listener,
    )


def best_kept(grounds: Grounds, imitation: Imitation) -> float:
    """Give the best dev score of a training, as a part of the teacher's."""
    return max(grounds.kept(score) for _, score in imitation.phases[-1].scores)


def at_chance(grounds: Grounds, imitation: Imitation) -> str:
    """Say in words that a student learned nothing, by its best score on dev; empty where it did."""
    best = max(score for _, score in imitation.phases[-1].scores)
    if grounds.metric != task_metric(grounds.vocabularies.whole.encoded.dev.head):
        return ""
    return no_better_than_chance({grounds.metric: best}, grounds.data, grounds.config.task)
