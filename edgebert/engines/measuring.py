"""Which of several ways to run a text is the fastest here, found out in a bounded time."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgebert.errors import BackendError
from edgebert.types import Batch

logger = logging.getLogger(__name__)

BUDGET_SECONDS = 2.0
HOPELESS = 2.0  # times the best, at two lengths or more: no longer length will make up for it
_BLOCK = 10  # calls of one run in a row, as in `edgebert.engines.bench`
_ROUNDS = 8  # blocks of each run at a length, if there is time
_ROUNDS_IF_CLEAR = 2  # enough where the second is behind by more than `_CLEAR` times
_CLEAR = 1.3

Run = Callable[[Batch], object]
OnFailure = Callable[[str, BackendError], None]


@dataclass(frozen=True)
class Measured:
    """Latencies of one text by name, the fastest of all first.

    Attributes:
        latency_ms: By name and number of tokens: the smallest of the calls that were timed, as
            whatever disturbs a machine only ever makes a call slower. A run that had no hope or no
            time left lacks the later lengths; one that wasn't reached at all has none, and is last.
    """

    latency_ms: dict[str, dict[int, float]]

    @property
    def fastest(self) -> str:
        """Name of the run to take."""
        return next(iter(self.latency_ms))

    @property
    def lengths(self) -> list[int]:
        """Numbers of tokens at which the fastest was timed."""
        return list(self.latency_ms[self.fastest])

    @property
    def reached(self) -> int:
        """Number of runs that were timed; the others are taken to be slower."""
        return sum(1 for own in self.latency_ms.values() if own)

    def mean_ms(self, name: str) -> float | None:
        """Give the geometric mean over `lengths`, or None for a run that lacks one of them."""
        own = self.latency_ms[name]
        return _mean(own) if set(own) == set(self.lengths) else None


def measure(
    runs: Mapping[str, Run],
    batches: Sequence[Batch],
    *,
    on_failure: OnFailure,
    budget_seconds: float = BUDGET_SECONDS,
) -> Measured:
    """Time runs by turns on short texts, then on longer ones, until the time is up.

    A run's first call at a length isn't counted: the engine prepares for that shape. No call is
    begun that would, by what is known, go on beyond the budget; so the longest lengths are left out
    for a large model. Of runs without hope the better one goes on, as what the best is compared to.

    Args:
        runs: What to time, by name, the preferred first.
        batches: One text each, the shortest first.
        on_failure: Told of a run that fails; it goes on without that run, or raises.
        budget_seconds: For all of it.

    Returns:
        What was found. A run that failed is not in it.
    """
    start = time.perf_counter()
    race = _Race(dict(runs), on_failure, end=start + budget_seconds)
    # The longer the text, the more time: a call takes longer, and it is where the choice weighs.
    weights = [math.sqrt(batch.input_ids.shape[1]) for batch in batches]
    for number, batch in enumerate(batches):
        share = sum(weights[: number + 1]) / sum(weights)
        if not race.time_length(batch, until=start + share * budget_seconds):
            break
        race.drop_hopeless()
    return race.result()


class _Race:
    def __init__(self, runs: dict[str, Run], on_failure: OnFailure, *, end: float) -> None:
        self._running = runs
        self._on_failure = on_failure
        self._end = end
        self._seconds: dict[str, dict[int, float]] = {name: {} for name in runs}

    def time_length(self, batch: Batch, *, until: float) -> bool:
        """Time all runs that are left; say whether there was time for all of them."""
        length = batch.input_ids.shape[1]
        if self._lengths() and time.perf_counter() + self._expected(length) > self._end:
            return False
        best = self._first_calls(batch)
        for number in range(_ROUNDS):
            left = until - time.perf_counter()
            calls = min(_BLOCK, int(left / max(sum(best.values()), 1e-9)) - 1)
            if calls < 1 or (number >= _ROUNDS_IF_CLEAR and _is_clear(best)):
                break
            for name in list(best) if number % 2 == 0 else reversed(list(best)):
                self._block(name, batch, calls, best)
        complete = set(best) == set(self._running)
        if complete or not self._lengths():
            self._running = {name: run for name, run in self._running.items() if name in best}
            for name, seconds in best.items():
                self._seconds[name][length] = seconds
        return complete

    def drop_hopeless(self) -> None:
        """Leave out runs that were far behind the best at every length so far."""
        if len(self._lengths()) < 2:
            return
        ranked = sorted(self._running, key=lambda name: _mean(self._seconds[name]))
        best = self._seconds[ranked[0]]
        for name in ranked[2:]:
            own = self._seconds[name]
            if all(own[length] > HOPELESS * best[length] for length in best):
                logger.debug("%s is left out after %d tokens", name, max(best))
                del self._running[name]

    def result(self) -> Measured:
        """Put the runs in order: those that went all the way, then the others."""
        timed = [name for name, seconds in self._seconds.items() if seconds]
        ranked = sorted(
            timed, key=lambda name: (name not in self._running, _mean(self._seconds[name]))
        )
        if timed:
            ranked += [name for name in self._seconds if name not in timed]
        return Measured(
            {
                name: {length: s * 1000 for length, s in self._seconds[name].items()}
                for name in ranked
            }
        )

    def _first_calls(self, batch: Batch) -> dict[str, float]:
        """Run each twice, the first time to get ready; at least one of them whatever it takes."""
        best: dict[str, float] = {}
        for name in list(self._running):
            if best and time.perf_counter() > self._end:
                break
            if self._call(name, batch) is None:
                continue
            taken = self._call(name, batch)
            if taken is not None:
                best[name] = taken
        return best

    def _block(self, name: str, batch: Batch, calls: int, best: dict[str, float]) -> None:
        self._call(name, batch)  # not timed: the caches are another run's
        for _ in range(calls):
            taken = self._call(name, batch)
            if taken is None:
                best.pop(name, None)
                return
            best[name] = min(best[name], taken)

    def _call(self, name: str, batch: Batch) -> float | None:
        """Give the seconds of one call; None for a run that failed, now or before."""
        run = self._running.get(name)
        if run is None:
            return None
        start = time.perf_counter()
        try:
            run(batch)
        except BackendError as error:
            del self._running[name]
            del self._seconds[name]
            self._on_failure(name, error)
            return None
        return time.perf_counter() - start

    def _expected(self, length: int) -> float:
        """Guess the seconds of two calls of each run, from the length before."""
        last = self._lengths()[-1]
        return 2 * length / last * sum(self._seconds[name][last] for name in self._running)

    def _lengths(self) -> list[int]:
        return next((list(self._seconds[name]) for name in self._running), [])


def _is_clear(seconds: Mapping[str, float]) -> bool:
    first, *others = sorted(seconds.values())
    return not others or others[0] > _CLEAR * first


def _mean(values: Mapping[int, float]) -> float:
    """Geometric mean: a ratio at one length counts as much as the same ratio at another."""
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values.values()) / len(values))
