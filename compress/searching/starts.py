"""Where a search begins: the largest shape of each width that fits, and how long it is taught."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from compress.searching.clock import Clock
from compress.searching.finals import epoch_steps
from compress.searching.grounds import Grounds, StepClock, fits_by_estimate, fitting_cost, teach
from compress.searching.shapes import Shape
from edgebert.files import write_json

logger = logging.getLogger(__name__)

SPEED_STEPS = 12  # of a training whose speed alone is looked at
LEAST_STEPS = 20  # of a short training
AT_LEAST = 16  # short trainings that there is to be time for
SEARCH_SHARE = 0.55  # of the time that is left after the teacher
SWEEP_PART = 0.25  # of the time limit: no shape is looked for after it


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the time is spent; a resumed run keeps it.

    Attributes:
        short_steps: Of a short training.
        search_part: Part of the time limit that is over when the last short training begins.
    """

    short_steps: int
    search_part: float


def good_starts(grounds: Grounds, clock: Clock) -> list[dict[str, int]]:
    """Choose shapes that are tried first: of each width the deepest that fits, and its ALBERT.

    Of all the shapes that a budget allows, the largest have the best scores; which width is the
    best, only a training tells.

    Args:
        grounds: What trainings stand on.
        clock: Of the search.

    Returns:
        Places in the space, the widest first.
    """
    space = grounds.space
    if "student" in space.dimensions:
        return list(space.places())
    starts: list[dict[str, int]] = []
    for width in reversed(range(len(space.dimensions["H"]))):
        if starts and not clock.left_s(SWEEP_PART):
            logger.info("Time is too short to look for the deepest shape of more widths.")
            break
        widest = dict.fromkeys(space.dimensions, 0)
        widest |= {"H": width, "I": len(space.dimensions["I"]) - 1}
        if (plain := _deepest(grounds, widest)) is not None:
            starts.append(plain)
            if grounds.budget.goal != "score" and plain["L"]:
                starts.append({**plain, "L": plain["L"] // 2})
        if "G" in space.dimensions:
            shared = {**widest, "G": 1, "E": 1} if "E" in widest else {**widest, "G": 1}
            if (found := _deepest(grounds, shared)) is not None:
                starts.append(found)
    return starts


def _deepest(grounds: Grounds, places: Mapping[str, int]) -> dict[str, int] | None:
    """Find the deepest shape that fits, with the largest vocabulary that allows so many layers."""
    space, best = grounds.space, dict[str, int]()
    for vocabulary in range(len(space.dimensions["V"])):
        for layers in reversed(range(len(space.dimensions["L"]))):
            found = {**places, "V": vocabulary, "L": layers}
            shape = space.shape(found)
            if shape is not None and fits_by_estimate(grounds, shape) == "":
                if layers >= best.get("L", -1):
                    best = found
                break
    if not best:
        return None
    low, high = -1, best["L"]
    while low < high:  # the time grows with the depth, so halving finds the limit
        middle = (low + high + 1) // 2
        shape = space.shape({**best, "L": middle})
        if shape is None or isinstance(fitting_cost(grounds, shape), str):
            high = middle - 1
        else:
            low = middle
    return {**best, "L": low} if low >= 0 else None


def make_plan(grounds: Grounds, clock: Clock, starts: list[dict[str, int]], file: Path) -> Plan:
    """Say how long short trainings are, by the speed of the largest shape; read it if it is there.

    Args:
        grounds: What trainings stand on.
        clock: Of the search.
        starts: Of `good_starts`.
        file: Where the plan is kept.
    """
    if file.is_file():
        return Plan(**json.loads(file.read_text(encoding="utf-8")))
    limit_s = grounds.config.time_limit * 60
    shapes = [shape for places in starts if (shape := grounds.space.shape(places)) is not None]
    if not shapes:
        return Plan(short_steps=LEAST_STEPS, search_part=1.0)
    shape = max(shapes, key=lambda one: grounds.estimator.weights(one).matrices)
    epoch = epoch_steps(grounds, shape)
    step_s = _step_seconds(grounds, shape)
    spent = min(1.0, clock.spent_s / limit_s)
    part = spent + (1 - spent) * SEARCH_SHARE
    trials = min(grounds.config.num_trials, AT_LEAST)
    steps = int(clock.left_s(part) / trials / max(step_s, 1e-9))
    most = grounds.config.max_steps or epoch
    plan = Plan(short_steps=max(min(LEAST_STEPS, most), min(steps, most)), search_part=part)
    logger.info(
        "short trainings have %d steps of %.2f s at most; a pass over the train rows has %d",
        *(plan.short_steps, step_s, epoch),
    )
    write_json(file, asdict(plan))
    return plan


def _step_seconds(grounds: Grounds, shape: Shape) -> float:
    """Train a shape for a few steps, and time one."""
    folder, clock = grounds.work / "speed", StepClock()
    config = grounds.distill_config(
        shape, folder / "student", max_steps=SPEED_STEPS, eval_steps=None
    )
    teach(grounds, shape, config, folder=folder, listener=clock.entry)
    shutil.rmtree(folder)
    return clock.step_s or 0.0
