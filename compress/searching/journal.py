"""The study of Optuna that remembers every trial, in a file that survives ``kill -9``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from compress.searching.budget import Cost
from compress.searching.records import Tried

JOURNAL_NAME = "journal.log"
STARTUP_TRIALS = 10  # before them the sampler draws evenly
PEERS = 4  # as many must have come so far before one is stopped
NO_DEARER = 1.02

_NAME = "search"
_TRIED, _SEEDED = "tried", "seeded"


class PeerPruner(optuna.pruners.BasePruner):
    """Stops the worse half of the students that take as much or less, at every measurement.

    A cheaper student may be worse than all others and still be the one that is looked for, so one
    is only compared with those that have no excuse. Where score is the goal, all are peers.
    """

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """See Optuna; the trial's attribute ``paid`` is what is to be made least."""
        step = trial.last_step
        if step is None:
            return False
        most = trial.user_attrs["paid"] * NO_DEARER
        peers = [
            other.intermediate_values[step]
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number
            and step in other.intermediate_values
            and other.user_attrs["paid"] <= most
        ]
        found = trial.intermediate_values[step]
        return len(peers) >= PEERS and found < statistics.median(peers)


class Journal:
    """The trials of a search, each in the order in which it was asked for.

    The sampler is seeded by the number of the trial, so a resumed search asks for what an unbroken
    one would have.

    Args:
        work: The run's work directory.
        seed: Of the sampler.
    """

    def __init__(self, work: Path, *, seed: int) -> None:
        path, self._seed = work / JOURNAL_NAME, seed
        _repair(path)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(path))),
            study_name=_NAME,
            direction="maximize",
            pruner=PeerPruner(),
            load_if_exists=True,
        )

    def seed_with(self, starts: list[dict[str, int]]) -> None:
        """Put shapes at the head of the queue, once."""
        if not self._study.user_attrs.get(_SEEDED):
            for places in starts:
                self._study.enqueue_trial(places)
            self._study.set_user_attr(_SEEDED, True)

    def ask(self, dimensions: Mapping[str, int]) -> tuple[Trial, dict[str, int]]:
        """Begin a trial: the queue's next, or what the sampler proposes.

        Args:
            dimensions: How many values each has.
        """
        waiting = (TrialState.WAITING,)
        begun = len(self._study.get_trials(deepcopy=False))
        begun -= len(self._study.get_trials(deepcopy=False, states=waiting))
        self._study.sampler = optuna.samplers.TPESampler(
            seed=self._seed + begun, n_startup_trials=STARTUP_TRIALS
        )
        trial = self._study.ask()
        return trial, _places(trial, dimensions)

    def unfinished(self, dimensions: Mapping[str, int]) -> list[tuple[Trial, dict[str, int]]]:
        """Give the trials that a killed run had begun."""
        found = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        trials = [Trial(self._study, self._id(one.number)) for one in found]
        return [(trial, _places(trial, dimensions)) for trial in trials]

    def close(self, trial: Trial, tried: Tried, *, value: float | None) -> None:
        """End a trial.

        Args:
            trial: Of `ask`.
            tried: What it came to.
            value: The higher the better; None for one that was dropped or stopped.
        """
        trial.set_user_attr(_TRIED, asdict(tried))
        if value is None:
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, value)

    def tried(self) -> list[Tried]:
        """Give what all ended trials came to."""
        found = [one.user_attrs.get(_TRIED) for one in self._study.get_trials(deepcopy=False)]
        return [
            Tried(**{**data, "cost": data["cost"] and Cost(**data["cost"])})
            for data in found
            if data is not None
        ]

    def value(self, number: int) -> float | None:
        """Give a trial's value; None for one that was dropped or stopped."""
        trial = self._study.get_trials(deepcopy=False)[number]
        return trial.value if trial.state == TrialState.COMPLETE else None

    def measured(self, number: int) -> set[int]:
        """Give the steps at which a trial was measured."""
        return set(self._study.get_trials(deepcopy=False)[number].intermediate_values)

    def _id(self, number: int) -> int:
        storage: Any = self._study._storage  # no public way leads from a number to a live trial
        return int(storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number))


def _places(trial: Trial, dimensions: Mapping[str, int]) -> dict[str, int]:
    return {name: trial.suggest_int(name, 0, count - 1) for name, count in dimensions.items()}


def _repair(path: Path) -> None:
    """Remove what a killed process left: a lock that nobody holds, half of a last line."""
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    if path.is_file():
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            path.write_bytes(whole)
