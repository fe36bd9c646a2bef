"""Worker processes, each with the bundle open. One that dies costs no row: its block is run again.

They are started anew, not forked, so they share what the system shares: the files of the model that
an engine maps.
"""

from __future__ import annotations

import logging
import multiprocessing
import queue
import signal
import threading
import traceback
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TypeAlias

from edgebert.cpu import default_threads, memory_limit
from edgebert.errors import BackendRunError, EdgeBertError
from edgebert.features.model import Embedded, Model
from edgebert.features.rows import Row
from edgebert.features.settings import Engine, VectorSettings
from edgebert.features.summary import Clock
from edgebert.runtime import Runtime

logger = logging.getLogger(__name__)

_TRIES = 2  # of a block whose process dies
_BASE_BYTES = 250 << 20  # a process with its libraries and the texts and vectors of its blocks
_MODEL_SHARE = 2  # bytes in memory for each of a model's file, at most

# the vectors, or what went wrong; and the seconds of each stage
Answer: TypeAlias = "tuple[Embedded | None, str, dict[str, float]]"


@dataclass(frozen=True)
class Job:
    """What every process opens.

    Attributes:
        bundle: Its directory.
        engine: How it's opened.
        settings: Which vectors are made.
    """

    bundle: Path
    engine: Engine
    settings: VectorSettings


def bounded(workers: int, *, size_bytes: int, threads: int | None) -> tuple[int, int]:
    """Say how many processes there are, and how many threads each has.

    Args:
        workers: Asked for; 0 for as many as there are threads.
        size_bytes: Of the model's files.
        threads: Of all processes together; None for what this process may use.

    Returns:
        No more processes than half of the memory has room for, and one at least.
    """
    most_threads = threads or default_threads()
    wanted = workers or most_threads
    limit = memory_limit()
    room = wanted if limit is None else limit // 2 // (_BASE_BYTES + _MODEL_SHARE * size_bytes)
    count = max(1, min(wanted, room))
    if count < wanted and workers:
        logger.warning("%d of %d workers: half of the memory has room for no more", count, wanted)
    return count, max(1, most_threads // count)


class Team:
    """Embeds blocks of rows in processes; see `edgebert.features.chain.Embedder`."""

    def __init__(self, job: Job, clock: Clock, *, count: int, threads: int) -> None:
        """Begin the threads that look after a process each; a process begins with its first block.

        Args:
            job: What each opens.
            clock: Counts the seconds of each stage, of all processes together.
            count: How many there are.
            threads: Of each.
        """
        self.count, self._clock = count, clock
        self._job = replace(job, engine=replace(job.engine, threads=threads))
        self._blocks: queue.SimpleQueue[tuple[Future[Embedded], list[Row]] | None]
        self._blocks = queue.SimpleQueue()
        self._stopped = False
        self._processes: dict[int, SpawnProcess] = {}
        for number in range(count):
            name = f"edgebert-worker-{number}"
            threading.Thread(
                target=self._look_after, args=(number,), name=name, daemon=True
            ).start()

    def submit(self, rows: list[Row]) -> Future[Embedded]:
        """Queue a block; its vectors or its error are the future's."""
        future: Future[Embedded] = Future()
        self._blocks.put((future, rows))
        return future

    def stop(self) -> None:
        """End all processes, whatever they are at."""
        self._stopped = True
        for _ in range(self.count):
            self._blocks.put(None)
        for process in list(self._processes.values()):
            process.terminate()

    def _look_after(self, number: int) -> None:
        connection: Connection | None = None
        while (block := self._blocks.get()) is not None and not self._stopped:
            future, rows = block
            for left in reversed(range(_TRIES)):
                try:
                    if connection is None:
                        connection = self._start(number)
                    connection.send(rows)
                    embedded, why, seconds = connection.recv()
                except (EOFError, OSError):
                    connection = None
                    if self._stopped:
                        return
                    self._tell_of_end(number, future, again=left > 0)
                    continue
                for stage in ("tokenize", "run"):
                    self._clock.add(stage, seconds[stage])
                if embedded is not None:
                    future.set_result(embedded)
                else:
                    future.set_exception(BackendRunError(why))
                break

    def _start(self, number: int) -> Connection:
        context = multiprocessing.get_context("spawn")  # a fork would copy other threads' locks
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, self._job), daemon=True)
        process.start()
        theirs.close()  # or its end would never be seen here
        self._processes[number] = process
        if self._stopped:
            process.terminate()
        return ours

    def _tell_of_end(self, number: int, future: Future[Embedded], *, again: bool) -> None:
        process = self._processes[number]
        process.join(5)
        how = f"A worker process ended with exit code {process.exitcode}"
        if again:
            logger.warning("%s; its rows are run again in a new one", how)
            return
        future.set_exception(
            BackendRunError(
                f"{how}, twice at the same rows. Killed (-9), it had no memory: take fewer "
                "--workers. In a script of yours, the call must stand below "
                "if __name__ == '__main__':, for each process reads the script. What is stored "
                "stays, and the same command goes on from there."
            )
        )


def work(connection: Connection, job: Job) -> None:
    """Embed blocks until the other end is gone: the body of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C goes to all; the parent ends us
    model: Model | None = None
    with suppress(EOFError, OSError):
        while True:
            rows, clock = connection.recv(), Clock()
            found, why = None, ""
            try:
                model = model or Model(Runtime(job.bundle, **asdict(job.engine)), job.settings)
                with clock.of("tokenize"):
                    prepared = model.prepare(rows)
                with clock.of("run"):
                    found = model.embed(prepared)
            except EdgeBertError as error:
                why = str(error)
            except Exception:  # whatever it is, the parent must hear of it
                why = f"A worker process failed: {traceback.format_exc()}"
            answer: Answer = found, why, clock.read()
            connection.send(answer)
