"""Short trainings: a shape is weighed, timed and taught for a while, and stopped where it lags."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from optuna import TrialPruned
from optuna.trial import Trial

from compress.options import RUN_NAME
from compress.searching.budget import Budget, Cost
from compress.searching.clock import Clock
from compress.searching.grounds import Grounds, StepClock, best_kept, fitting_cost, teach
from compress.searching.journal import Journal
from compress.searching.records import Tried
from compress.searching.shapes import Shape
from edgebert.errors import EdgeBertError

logger = logging.getLogger(__name__)

FOLDER = "trials"
MEASUREMENTS = 4  # of a short training, the last at its end
WON_BACK = 0.6  # what a long training leaves of the loss after a short one, until it is measured
DULL = 150  # so many dropped shapes in a row end the search
UNITS = {"score": 1.0, "latency": 1.0, "size": 1e6}  # of what is paid: ms, MB


class ShortTrials:
    """Runs trials until there are enough, or no more time.

    Args:
        grounds: What they stand on.
        journal: Remembers them.
        clock: Of the search.
        steps: Of a short training.
        part: Of the time limit that may be over at the end.
    """

    def __init__(
        self, grounds: Grounds, journal: Journal, clock: Clock, *, steps: int, part: float
    ) -> None:
        self._grounds, self._journal, self._clock = grounds, journal, clock
        self._steps, self._part = steps, part
        self._dimensions = {name: len(v) for name, v in grounds.space.dimensions.items()}
        self.notes: list[str] = []

    def run(self) -> None:
        """Finish what was begun, then try more."""
        for trial, places in self._journal.unfinished(self._dimensions):
            self._try(trial, places, resume=True)
        while not self._enough():
            self._try(*self._journal.ask(self._dimensions), resume=False)
            self._clock.save()

    def _enough(self) -> bool:
        tried, config = self._journal.tried(), self._grounds.config
        taught = sum(one.outcome != "dropped" for one in tried)
        if taught >= config.num_trials:
            return True
        if len(tried) >= DULL and all(one.outcome == "dropped" for one in tried[-DULL:]):
            logger.info("The last %d shapes were dropped; no more are asked for.", DULL)
            return True
        if len({one.shape for one in tried if one.student}) >= self._grounds.space.size:
            return True
        if taught and not self._clock.left_s(self._part):
            self.notes.append(
                f"time ended the search after {taught} of {config.num_trials} short trainings"
            )
            return True
        return False

    def _try(self, trial: Trial, places: dict[str, int], *, resume: bool) -> None:
        shape = self._grounds.space.shape(places)
        began = time.monotonic()
        if shape is None:
            tried = Tried(
                number=trial.number,
                student="",
                vocab_size=0,
                outcome="dropped",
                reason="no shape has these numbers",
            )
            return self._journal.close(trial, tried, value=None)
        blank = Tried(
            number=trial.number,
            student=str(shape.architecture),
            vocab_size=shape.vocab_size,
            outcome="dropped",
        )
        before = [one for one in self._journal.tried() if one.shape == blank.shape]
        if before:
            tried = dataclasses.replace(blank, reason=f"was tried as trial {before[0].number}")
            return self._journal.close(trial, tried, value=self._journal.value(before[0].number))
        found = fitting_cost(self._grounds, shape)
        if isinstance(found, str):
            logger.info("trial %d, %s: dropped, %s", trial.number, shape, found)
            return self._journal.close(trial, dataclasses.replace(blank, reason=found), value=None)
        blank = dataclasses.replace(blank, precision=found[0], cost=found[1])
        tried = self._teach(trial, shape, blank, found[1], resume=resume)
        tried = dataclasses.replace(tried, seconds=round(time.monotonic() - began, 1))
        return self._journal.close(trial, tried, value=value_of(self._grounds.budget, tried))

    def _teach(
        self, trial: Trial, shape: Shape, blank: Tried, cost: Cost, *, resume: bool
    ) -> Tried:
        grounds, clock = self._grounds, StepClock()
        folder = grounds.work / FOLDER / f"{trial.number:04d}"
        trial.set_user_attr("paid", grounds.budget.paid(cost))
        config = grounds.distill_config(
            shape,
            folder / "student",
            max_steps=self._steps,
            eval_steps=max(1, -(-self._steps // MEASUREMENTS)),
            early_stopping_patience=None,
            resume=resume,
        )

        known = self._journal.measured(trial.number)  # by a run that was killed

        def listen(entry: Mapping[str, float]) -> None:
            clock.entry(entry)
            if grounds.metric in entry:
                place = int(entry["step"]) * MEASUREMENTS // self._steps
                if place not in known:
                    trial.report(grounds.kept(entry[grounds.metric]), step=place)
                if place < MEASUREMENTS and trial.should_prune():
                    raise TrialPruned

        try:
            imitation = teach(grounds, shape, config, folder=folder, listener=listen)
        except TrialPruned:
            reason = "worse than half of those that take no more"
            tried = dataclasses.replace(blank, outcome="stopped", reason=reason)
        except EdgeBertError as error:
            tried = dataclasses.replace(blank, reason=str(error))
        else:
            tried = dataclasses.replace(
                blank, outcome="trained", kept=best_kept(grounds, imitation)
            )
        _remove_all_but_settings(folder)
        logger.info("trial %d, %s: %s", trial.number, shape, _told(tried))
        return dataclasses.replace(tried, step_s=clock.step_s)


def value_of(budget: Budget, tried: Tried) -> float | None:
    """Say how good a trial is: where cost is the goal, the cheaper of those that may do.

    Args:
        budget: The limits.
        tried: What the trial came to.

    Returns:
        The higher the better; None where it was dropped or stopped.
    """
    if tried.kept is None or tried.cost is None:
        return None
    if budget.goal == "score":
        return tried.kept
    lacking = 1 - WON_BACK * (1 - tried.kept) - budget.least_kept
    if lacking < 0:
        return lacking
    return 1 / (1 + budget.paid(tried.cost) / UNITS[budget.goal])


def _told(tried: Tried) -> str:
    if tried.kept is None:
        return f"{tried.outcome}, {tried.reason}"
    return f"kept {100 * tried.kept:.1f} % after the short training"


def _remove_all_but_settings(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != RUN_NAME:
            path.unlink()
