"""Workers in other processes, here or elsewhere, each of which may die: no row is lost by that.

A thread a worker sends it what is to be done and waits; it takes nothing before its worker is
ready, so that no row waits for a worker that finds no room. When one dies its block is done again
by another. A block over which several died is done row by row, and a row over which as many die is
bad. Nothing but the process that called writes, so that a dead worker leaves nothing behind.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from edgebert.errors import BackendRunError
from edgebert.features.model import Embedded
from edgebert.features.rows import Row
from edgebert.features.summary import Clock
from edgebert.features.threads import Worker

logger = logging.getLogger(__name__)

DEATHS = 3  # of workers over the same rows, before these are taken for the reason
_STOP_SECONDS = 10.0

_Done: TypeAlias = "tuple[Embedded, Mapping[str, float]]"


class WorkerDiedError(Exception):
    """A worker ended before it answered; the message says how. No caller ever sees it."""


class Remote(Protocol):
    """A model in another process, for one thread at a time; it is begun when it's made."""

    def open(self) -> None:
        """Wait until it is ready; raises as `embed` does."""
        ...

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
        """Begin; workers are started with the first block.

        Args:
            start: Begins a worker.
            clock: Counts the seconds of each stage, of all workers together.
            count: How many there are at most.
        """
        self.count = count
        self._start, self._clock = start, clock
        self._blocks = Worker("edgebert-block", threads=count + 1)  # so that no worker is idle
        self._tries: queue.SimpleQueue[tuple[Future[_Done], list[Row]] | None]
        self._tries = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._remotes: set[Remote] = set()
        self._lock, self._stopped = threading.Lock(), False

    def submit(self, rows: list[Row]) -> Future[Embedded]:
        """Queue a block; its vectors or its error are the future's."""
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._work, name=f"edgebert-worker-{i}", daemon=True)
                for i in range(self.count)
            ]
            for thread in self._threads:
                thread.start()
        return self._blocks.submit(partial(self._embed, rows))

    def stop(self) -> None:
        """End all workers, whatever they are at."""
        with self._lock:
            self._stopped = True
            remotes = list(self._remotes)
        self._blocks.stop()
        for remote in remotes:
            remote.stop()
        for _ in self._threads:
            self._tries.put(None)
        end = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

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
                future: Future[_Done] = Future()
                self._tries.put((future, rows))
                embedded, seconds = future.result()
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

    def _work(self) -> None:
        """Do what is to be done, with one worker after the other."""
        remote: Remote | None = None
        failure: BaseException | None = None
        while True:
            if remote is None and failure is None:
                try:
                    remote = self._started()
                except BaseException as error:
                    failure = error  # it ends the run as soon as there is something to be done
            if (one := self._tries.get()) is None:
                return
            future, rows = one
            try:
                if remote is None:
                    raise failure or CancelledError
                future.set_result(remote.embed(rows))
            except WorkerDiedError as death:
                self._forget(remote)
                remote = None
                future.set_exception(death)
            except BaseException as error:
                future.set_exception(error)
            del one, future, rows  # or they would stay until the next

    def _started(self) -> Remote:
        """Give a worker that is ready."""
        why: WorkerDiedError | None = None
        for _ in range(DEATHS):
            with self._lock:
                if self._stopped:
                    raise CancelledError
                remote = self._start()
                self._remotes.add(remote)
            try:
                remote.open()
                return remote
            except WorkerDiedError as death:
                self._forget(remote)
                why = death
        raise BackendRunError(
            f"{DEATHS} workers ended before they were ready ({why}). Is there memory for "
            f"{self.count} of them? See above for what they said."
        ) from why

    def _forget(self, remote: Remote | None) -> None:
        with self._lock:
            self._remotes -= {remote}


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
