"""Workers in other processes, here or elsewhere, each of which may die: no row is lost by that.

A thread a worker sends it a block and waits. When a worker dies its block is done again by a new
one. A block over which several died is done row by row, and a row over which as many die is bad.
Nothing but the process that called writes, so that a dead worker leaves nothing behind.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from edgebert.errors import BackendRunError
from edgebert.features.model import Embedded
from edgebert.features.rows import Row
from edgebert.features.summary import Clock
from edgebert.features.threads import Worker
from runtimes.pool import Pool

logger = logging.getLogger(__name__)

DEATHS = 3  # of workers over the same rows, before these are taken for the reason
_STOP_SECONDS = 10.0


class WorkerDiedError(Exception):
    """A worker ended before it answered; the message says how. No caller ever sees it."""


class Remote(Protocol):
    """A model in another process, for one thread at a time."""

    def embed(self, rows: list[Row]) -> tuple[Embedded, Mapping[str, float]]:
        """Embed a block; give the seconds of each stage too.

        Raises:
            EdgeBertError: What `Model.embed` raises there.
            WorkerDiedError: The process is gone; so is this.
        """
        ...

    def stop(self) -> None:
        """End the process, whatever it does; once more does nothing."""
        ...


class Team:
    """Embeds blocks of rows with workers; see `edgebert.features.chain.Embedder`."""

    def __init__(self, start: Callable[[], Remote], clock: Clock, *, count: int) -> None:
        """Begin; a worker is started when there's a block for it.

        Args:
            start: Gives a worker that is ready, or raises as `Remote.embed` does.
            clock: Counts the seconds of each stage, of all workers together.
            count: How many there are at most.
        """
        self.count = count
        self._start, self._clock = start, clock
        self._threads = Worker("edgebert-worker", threads=count)
        self._idle = Pool(self._started, limit=count)
        self._remotes: list[Remote] = []
        self._lock, self._stopped = threading.Lock(), False

    def submit(self, rows: list[Row]) -> Future[Embedded]:
        """Queue a block; its vectors or its error are the future's."""
        return self._threads.submit(partial(self._embed, rows))

    def stop(self) -> None:
        """End all workers, whatever they are at."""
        with self._lock:
            self._stopped = True
            remotes = list(self._remotes)
        self._threads.stop()
        for remote in remotes:
            remote.stop()
        self._threads.join(_STOP_SECONDS)

    def _embed(self, rows: list[Row]) -> Embedded:
        with suppress(WorkerDiedError):
            return self._again(rows)
        first, last = rows[0].place, rows[-1].place
        logger.warning("The rows from %s to %s are tried one by one", first, last)
        alone, bad = self._each(rows)
        fatal = {row.key for row, _ in bad}
        good = [row for row in rows if row.key not in fatal]
        try:  # a text alone may have other last bits than one in a block
            done = self._again(good) if good else _joined([])
        except WorkerDiedError:
            logger.warning("They are too many at once, and stay as they came one by one")
            done = _joined(alone)
        return replace(done, bad=[*done.bad, *bad])

    def _again(self, rows: list[Row]) -> Embedded:
        """Embed rows, with another worker when one dies."""
        for death in range(1, DEATHS + 1):
            try:
                with self._idle.borrow() as remote:
                    embedded, seconds = remote.embed(rows)
                for stage in ("tokenize", "run"):
                    self._clock.add(stage, seconds[stage])
                return embedded
            except WorkerDiedError as error:
                if self._stopped:
                    raise CancelledError from error
                logger.warning("A worker died (%s); its %d rows are done again", error, len(rows))
                why = f"{death} workers died of it ({error})"
        raise WorkerDiedError(why)

    def _each(self, rows: list[Row]) -> tuple[list[Embedded], list[tuple[Row, str]]]:
        """Embed each row by itself; give those that no worker lives through too, with why."""
        done: list[Embedded] = []
        bad: list[tuple[Row, str]] = []
        for row in rows:
            try:
                done.append(self._again([row]))
            except WorkerDiedError as death:
                self._check_workers(death)
                bad.append((row, str(death)))
        return done, bad

    def _check_workers(self, why: WorkerDiedError) -> None:
        """Make sure that workers live through a text that nothing is wrong with."""
        try:
            self._again([Row(place="probe", key="probe", text="a")])
        except WorkerDiedError:
            raise BackendRunError(
                f"Workers die whatever they are given: {why}. Is there memory for {self.count} of "
                "them? What was stored stays; the same command goes on from there."
            ) from why

    def _started(self) -> Remote:
        """Start a worker."""
        for _ in range(DEATHS):
            try:
                remote = self._start()
            except WorkerDiedError as error:
                why = error
                continue
            with self._lock:
                if not self._stopped:
                    self._remotes.append(remote)
                    return remote
            remote.stop()
            raise CancelledError
        raise BackendRunError(
            f"{DEATHS} workers ended before they were ready ({why}). Is there memory for "
            f"{self.count} of them? See above for what they said."
        ) from why


def _joined(done: list[Embedded]) -> Embedded:
    vectors = [one.vectors for one in done if one.rows]
    return Embedded(
        [row for one in done for row in one.rows],
        [entries for one in done for entries in one.entries],
        np.concatenate(vectors) if vectors else np.empty((0, 0), dtype=np.float32),
        [pair for one in done for pair in one.bad],
        tokens=sum(one.tokens for one in done),
        dropped_tokens=sum(one.dropped_tokens for one in done),
    )
