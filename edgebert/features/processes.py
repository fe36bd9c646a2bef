"""Worker processes on this machine, each with the bundle open.

They are started anew, not forked, so they share what the system shares: the files of the model that
an engine maps.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from edgebert.cpu import default_threads, memory_limit
from edgebert.errors import EdgeBertError, InputError
from edgebert.features.job import Answer, Job, answer
from edgebert.features.model import Embedded
from edgebert.features.rows import Row
from edgebert.features.team import WorkerDiedError

logger = logging.getLogger(__name__)

_BASE_BYTES = 250 << 20  # a process with its libraries and the texts and vectors of its blocks
_MODEL_SHARE = 2  # bytes in memory for each of a model's file, at most
_NAME = "edgebert-worker"
_UNGUARDED = 73  # the exit code of a worker that came to a call of `extract`


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


def check_script(*, workers: bool) -> None:
    """Make sure that worker processes can be started, each of which reads the script first.

    In one of those this ends the process, without a word: it shall not do what the script does.

    Args:
        workers: Whether there may be any.

    Raises:
        InputError: The script comes from stdin.
    """
    if multiprocessing.current_process().name == _NAME:
        sys.exit(_UNGUARDED)
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None) if getattr(main, "__spec__", None) is None else None
    if workers and path and not Path(path).exists():
        raise InputError(
            f"Worker processes can't read the script, as there is no file {path}; save it as one, "
            "or leave workers out."
        )


class ProcessWorker:
    """One process; see `edgebert.features.team.Remote`."""

    def __init__(self, job: Job) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")  # a fork would copy other threads' locks
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, job), name=_NAME, daemon=True)
        self._process.start()
        theirs.close()  # or its end would never be seen here

    def open(self) -> None:
        """See `Remote`."""
        try:
            failure = self._receive()
        except WorkerDiedError:
            if self._process.exitcode != _UNGUARDED:
                raise
            raise InputError(
                "The script calls extract() with workers at its top level, and each worker reads "
                "the script as it starts; put the call below if __name__ == '__main__':"
            ) from None
        if failure is not None:
            self.stop()
            failure.unpack()

    def embed(self, rows: list[Row]) -> tuple[Embedded, Mapping[str, float]]:
        """See `Remote`."""
        with suppress(OSError):  # it is gone, and receiving tells so
            self._connection.send(rows)
        found: Answer = self._receive()
        return found.unpack()

    def stop(self) -> None:
        """See `Remote`."""
        self._process.kill()

    def _receive(self) -> Any:  # an answer, or None from one that is ready
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            code = self._process.exitcode
            raise WorkerDiedError(f"its process ended with exit code {code}") from error


def work(connection: Connection, job: Job) -> None:
    """Embed blocks until the other end is gone: the body of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C goes to all; the parent ends us
    logging.getLogger("edgebert").setLevel(logging.ERROR)  # the parent has told the rest
    try:
        model = job.open()
    except EdgeBertError as error:
        connection.send(Answer.of(error))
        return
    with suppress(EOFError, OSError):
        connection.send(None)
    while True:
        try:
            rows = connection.recv()
        except (EOFError, OSError):
            return
        done = answer(model, rows)
        with suppress(OSError):
            connection.send(done)
