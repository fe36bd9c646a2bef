"""Search in processes that are killed at chosen points; print what each search came to.

``python search_worker.py DIRECTORY TEACHER DATA '{"NAME": [3, 5]}'`` starts, for each name, one
process for each number, which dies at its so many-th measurement of a short training, resuming what
the one before left; then a last one that is let to its end. Started by ``test_search.py``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import optuna

from compress.search import search
from compress.searching.config import SearchConfig
from tests.compress.steps import QUICK


def settings(folder: Path, teacher: str, data: str, *, resume: bool) -> SearchConfig:
    """Settings under which every shape fits, so that clocks decide nothing."""
    return SearchConfig(
        **{
            **QUICK,
            "teacher": teacher,
            "train_file": Path(data),
            "dev_file": Path(data),
            "output_dir": folder / "found",
            "max_size": "1GB",
            "max_latency": "60s",
            "num_trials": 7,
            "time_limit": 600.0,
            "num_train_epochs": 2,
            "resume": resume,
        }
    )


def die_at(number: int) -> None:
    """Let this process die in its so many-th report."""
    report, calls = optuna.trial.Trial.report, [0]

    def dying(trial: optuna.trial.Trial, value: float, step: int) -> None:
        report(trial, value, step)
        calls[0] += 1
        if calls[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    optuna.trial.Trial.report = dying  # type: ignore[method-assign]


def in_child(config: SearchConfig, *, dies_at: int | None) -> int:
    """Search in a fork; give the signal that ended it, 0 for none."""
    child = os.fork()
    if child == 0:
        if dies_at is not None:
            die_at(dies_at)
        search(config)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(directory: str, teacher: str, data: str, scenarios: str) -> None:
    """Run every scenario and print JSON."""
    found = {}
    for name, points in json.loads(scenarios).items():
        folder = Path(directory) / name
        folder.mkdir()
        ends = [
            in_child(settings(folder, teacher, data, resume=bool(place)), dies_at=point)
            for place, point in enumerate([*points, None])
        ]
        result = json.loads((folder / "found" / "search.json").read_text())
        found[name] = {"ends": ends, "tried": result["tried"], "finalists": result["finalists"]}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
