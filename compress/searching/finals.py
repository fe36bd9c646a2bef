"""The best shapes are trained to the end."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Mapping, Sequence

from compress.distillation.config import DistillConfig
from compress.distillation.imitate import Imitation
from compress.models.architecture import parse_student
from compress.options import RUN_NAME, load_run
from compress.searching.budget import Budget
from compress.searching.clock import Clock
from compress.searching.grounds import Grounds, best_kept, teach
from compress.searching.records import Tried
from compress.searching.shapes import Shape
from compress.searching.trials import WON_BACK

logger = logging.getLogger(__name__)

FOLDER = "finals"
MOST = 4  # students that are trained to the end


class Finals:
    """Trains the most promising shapes to the end, one after another.

    Args:
        grounds: What they stand on.
        clock: Of the search.
        short_steps: Of the trainings before.
        part: Of the time limit that may be over at the end.

    Attributes:
        trained: The students by the number of their trial.
        notes: What time was too short for.
    """

    def __init__(self, grounds: Grounds, clock: Clock, *, short_steps: int, part: float) -> None:
        self._grounds, self._clock = grounds, clock
        self._short_steps, self._part = short_steps, part
        self.trained: dict[int, tuple[Tried, Imitation, DistillConfig]] = {}
        self._kept: dict[int, float] = {}
        self.notes: list[str] = []

    def run(self, tried: Sequence[Tried]) -> None:
        """Train until there are enough, nothing better is in sight, or there is no more time."""
        promising = [one for one in tried if one.kept is not None]
        while len(self.trained) < MOST:
            left = [one for one in promising if one.number not in self.trained]
            found = next_final(self._grounds.budget, left, self._kept, promising)
            if found is None or not self._train(found):
                return
            self._clock.save()

    def _train(self, one: Tried) -> bool:
        """Train a student; False where there is no time for it."""
        grounds = self._grounds
        folder = grounds.work / FOLDER / f"{one.number:04d}"
        shape = shape_of(grounds, one)
        if (folder / RUN_NAME).is_file():  # begun by a run that was killed
            settings = load_run(DistillConfig, folder / RUN_NAME)
            config = DistillConfig(**{**settings, "resume": True})
        else:
            steps = self._affordable(one, shape)
            if steps == 0:
                return False
            config = grounds.distill_config(shape, folder / "student", max_steps=steps)
        logger.info("final training of trial %d, %s", one.number, shape)
        imitation = teach(grounds, shape, config, folder=folder, listener=lambda _: None)
        self.trained[one.number] = (one, imitation, config)
        self._kept[one.number] = best_kept(grounds, imitation)
        logger.info("trial %d kept %.1f %%", one.number, 100 * self._kept[one.number])
        return True

    def _affordable(self, one: Tried, shape: Shape) -> int | None:
        """Say how many steps a training may have; None for all that are asked for, 0 for none."""
        config = self._grounds.config
        wanted = config.max_steps or config.num_train_epochs * epoch_steps(self._grounds, shape)
        step_s = one.step_s or 1e-9
        around_s = max(0.0, one.seconds - self._short_steps * step_s)  # its start, its measurements
        left_s = max(0.0, self._clock.left_s(self._part) - around_s)
        fitting = int(left_s / step_s)
        if fitting >= wanted:
            return config.max_steps
        if self.trained:
            self.notes.append(
                f"time was too short to train more than {len(self.trained)} students to the end"
            )
            return 0
        steps = max(self._short_steps, fitting)
        self.notes.append(
            f"time was too short for the {wanted} steps of a whole training: it had {steps}"
        )
        return steps


def next_final(
    budget: Budget, left: Sequence[Tried], kept: Mapping[int, float], all_tried: Sequence[Tried]
) -> Tried | None:
    """Choose which shape is trained to the end next.

    Where score is the goal, the one with the best score after its short training. Else the cheapest
    that may do, by what long trainings have won back so far; once one has done, only cheaper ones.

    Args:
        budget: The limits.
        left: Shapes that were taught for a short while and not yet to the end.
        kept: What was kept at the end, by number of the trial.
        all_tried: All that were taught for a short while.
    """
    if budget.goal == "score":
        return max(left, key=lambda one: one.kept or 0.0, default=None)
    short = {one.number: one.kept or 0.0 for one in all_tried}
    parts = [(1 - now) / max(1 - short[number], 1e-6) for number, now in kept.items()]
    part = statistics.median(parts) if parts else WON_BACK
    paid = {one.number: budget.paid(one.cost) for one in all_tried if one.cost is not None}
    done = [paid[number] for number, now in kept.items() if now >= budget.least_kept]
    cheaper = [one for one in left if not done or paid[one.number] < min(done)]
    hoped = {one.number: 1 - part * (1 - (one.kept or 0.0)) for one in cheaper}
    able = [one for one in cheaper if hoped[one.number] >= budget.least_kept]
    if able:
        return min(able, key=lambda one: (paid[one.number], -hoped[one.number]))
    if done:
        return None
    return max(cheaper, key=lambda one: hoped[one.number], default=None)


def epoch_steps(grounds: Grounds, shape: Shape) -> int:
    """Count the steps of a pass over the train rows."""
    config = grounds.config
    train = grounds.vocabularies.ready(shape.vocab_size).encoded.train
    batches = train.batches(batch_size=config.per_device_train_batch_size, seed=config.seed)
    return -(-len(batches) // config.gradient_accumulation_steps)


def shape_of(grounds: Grounds, one: Tried) -> Shape:
    """Give the shape of a trial."""
    theirs = grounds.vocabularies.whole.model.config
    return Shape(parse_student(one.student, theirs), one.vocab_size)
