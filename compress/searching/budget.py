"""What a student may cost, and what is made the best within that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from compress.reporting import format as show

Goal = Literal["score", "latency", "size"]

CLEARLY = 1.02  # times as fast or as small; less is noise, and the better score wins


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What an artifact takes.

    Attributes:
        size_bytes: Of all its files.
        latency_ms: Median of one text of 32 tokens on its engine.
    """

    size_bytes: int
    latency_ms: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """One artifact among others.

    Attributes:
        name: Like ``7 int8``.
        kept: Its dev score as a part of the teacher's.
        cost: What it takes.
    """

    name: str
    kept: float
    cost: Cost


P = TypeVar("P", bound=Point)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Two limits; what the third one would limit is the goal.

    Attributes:
        max_drop: Most of the teacher's dev score that may go, as a part of it.
        max_size_bytes: Of an artifact.
        max_latency_ms: Median of one text of 32 tokens.
    """

    max_drop: float | None = None
    max_size_bytes: int | None = None
    max_latency_ms: float | None = None

    @property
    def goal(self) -> Goal:
        """Name what is made the best it can be: the highest score, or the least cost."""
        if self.max_drop is None:
            return "score"
        return "latency" if self.max_latency_ms is None else "size"

    @property
    def least_kept(self) -> float:
        """Give the part of the teacher's score that must be left; 0 where score is the goal."""
        return 0.0 if self.max_drop is None else 1 - self.max_drop

    def over(self, cost: Cost) -> tuple[str, ...]:
        """Say which limits a cost breaks; empty where it breaks none."""
        reasons = []
        if self.max_size_bytes is not None and cost.size_bytes > self.max_size_bytes:
            sizes = (cost.size_bytes, self.max_size_bytes)
            size, most = map(show.megabytes, sizes)
            if size == most:  # as rounded
                size, most = (f"{one:,} bytes" for one in sizes)
            reasons.append(f"{size} is more than {most}")
        if self.max_latency_ms is not None and cost.latency_ms > self.max_latency_ms:
            time, most = (show.milliseconds(n) for n in (cost.latency_ms, self.max_latency_ms))
            reasons.append(f"{time} is more than {most}")
        return tuple(reasons)

    def misses(self, point: Point) -> tuple[str, ...]:
        """Say which limits an artifact breaks; empty where it meets the budget."""
        reasons = self.over(point.cost)
        if point.kept < self.least_kept:
            kept, least = show.percent(point.kept), show.percent(self.least_kept)
            reasons += (f"{kept} kept is less than {least}",)
        return reasons

    def paid(self, cost: Cost) -> float:
        """Give what is to be made least; 0 where score is the goal."""
        return {"score": 0.0, "latency": cost.latency_ms, "size": float(cost.size_bytes)}[self.goal]

    def best(self, points: Sequence[P]) -> P | None:
        """Choose, of the artifacts that meet the budget, the best by the goal.

        Of those that aren't clearly dearer than the cheapest, the one with the best score is taken;
        of equal ones the faster, then the smaller.
        """
        good = [point for point in points if not self.misses(point)]
        if not good:
            return None
        limit = min(self.paid(point.cost) for point in good) * CLEARLY
        near = [point for point in good if self.paid(point.cost) <= limit]
        return max(near, key=lambda p: (p.kept, -p.cost.latency_ms, -p.cost.size_bytes))

    def nearest(self, points: Sequence[P]) -> P | None:
        """Choose the artifact that breaks the limits least, by the sum of its relative excesses."""

        def excess(point: Point) -> float:
            parts = [
                (point.cost.size_bytes, self.max_size_bytes),
                (point.cost.latency_ms, self.max_latency_ms),
            ]
            over = sum(max(0.0, value / most - 1) for value, most in parts if most is not None)
            return over + max(0.0, self.least_kept - point.kept)

        return min(points, key=excess, default=None)


def pareto(points: Sequence[P]) -> list[P]:
    """Give the points that no other beats: as good in score, size and time, and better in one."""

    def beats(a: Point, b: Point) -> bool:
        pairs = (
            (a.kept, b.kept),
            (-a.cost.size_bytes, -b.cost.size_bytes),
            (-a.cost.latency_ms, -b.cost.latency_ms),
        )
        return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)

    return [one for one in points if not any(beats(other, one) for other in points)]
