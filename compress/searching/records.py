"""What a search tried and found, as ``search.json`` holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from compress.searching.budget import Budget, Cost, Point, pareto

RESULT_NAME = "search.json"

Outcome = Literal["trained", "stopped", "dropped"]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One shape that was looked at.

    Attributes:
        number: Of the trial; its settings stand in ``trials/NUMBER`` of the work directory.
        student: Its architecture, like ``L=4,H=256,A=8,I=1024``; "" where the numbers make none.
        vocab_size: Tokens that it knows.
        outcome: ``trained`` for a short while, ``stopped`` on the way, or ``dropped`` before.
        reason: Why it was stopped or dropped.
        kept: Its dev score after the short training, as a part of the teacher's.
        precision: The one that is to meet the budget.
        cost: Of an artifact with random weights in that precision.
        seconds: That it took.
        step_s: Seconds of one step of its training.
    """

    number: int
    student: str
    vocab_size: int
    outcome: Outcome
    reason: str = ""
    kept: float | None = None
    precision: str | None = None
    cost: Cost | None = None
    seconds: float = 0.0
    step_s: float | None = None

    @property
    def shape(self) -> str:
        """Name it with its vocabulary."""
        return f"{self.student},V={self.vocab_size}" if self.student else "none"


@dataclass(frozen=True, kw_only=True)
class Finalist(Point):
    """An artifact of a student that was trained to the end, measured beside the others.

    Attributes:
        number: Of its trial.
        student: Its architecture.
        vocab_size: Tokens that it knows.
        precision: ``fp32``, ``int8``, …
        recipe: How INT8 was made.
        score: On dev, on its engine; None where artifacts have no score that compares with the
            teacher's, and ``kept`` is that of the torch model.
        path: Main file, relative to its bundle.
    """

    number: int
    student: str
    vocab_size: int
    precision: str
    recipe: str
    score: float | None
    path: str


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What ``search.json`` holds.

    Attributes:
        goal: What was made the best it can be: ``score``, ``latency`` or ``size``.
        budget: The two limits.
        backend: The engine.
        threads: Of the engine.
        metric: Of all scores; on dev.
        teacher_score: Of the teacher in torch FP32.
        chosen: The artifact in whose favour the search decided; its bundle is the result.
        finalists: All artifacts of students that were trained to the end.
        tried: All shapes, in the order in which they were looked at.
        shapes: How many there are to choose from.
        short_steps: Steps of a short training.
        seconds: That the search took.
        notes: What a reader must know, such as what time was too short for.
        test_score: Of the chosen artifact on test; None without one.
        refused: Whether a gate kept an artifact out of the bundle.
    """

    goal: str
    budget: Budget
    backend: str
    threads: int
    metric: str
    teacher_score: float
    chosen: Finalist
    finalists: tuple[Finalist, ...]
    tried: tuple[Tried, ...]
    shapes: int
    short_steps: int
    seconds: float
    notes: tuple[str, ...] = ()
    test_score: float | None = None
    refused: bool = False

    @property
    def front(self) -> tuple[Finalist, ...]:
        """Give the finalists that no other beats in score, size and time."""
        return tuple(pareto(self.finalists))

    def counted(self, outcome: Outcome) -> int:
        """Count the shapes of an outcome."""
        return sum(one.outcome == outcome for one in self.tried)

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON holds it."""
        return {**asdict(self), "front": [one.name for one in self.front]}


def load_result(data: dict[str, Any]) -> SearchResult:
    """Read what `SearchResult.to_json` wrote."""
    known = {name: value for name, value in data.items() if name != "front"}
    return SearchResult(
        **{
            **known,
            "budget": Budget(**data["budget"]),
            "chosen": _finalist(data["chosen"]),
            "finalists": tuple(map(_finalist, data["finalists"])),
            "tried": tuple(map(_tried, data["tried"])),
            "notes": tuple(data["notes"]),
        }
    )


def _finalist(data: dict[str, Any]) -> Finalist:
    return Finalist(**{**data, "cost": Cost(**data["cost"])})


def _tried(data: dict[str, Any]) -> Tried:
    return Tried(**{**data, "cost": data["cost"] and Cost(**data["cost"])})
