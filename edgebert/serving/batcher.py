"""Rows of many requests, run together: one thread, one engine, every request in its turn."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from edgebert.engines.engine import Engine
from edgebert.errors import BackendError
from edgebert.text.tokenizer import Encoding
from edgebert.types import Batch, FloatArray

logger = logging.getLogger(__name__)

Outputs: TypeAlias = "tuple[list[int], Batch, dict[str, FloatArray]]"

_MOST_ROWS = 256  # of a round, however short they are: what comes meanwhile waits for its end
_STOP_SECONDS = 10.0  # a round takes a second or two


class AbandonedError(Exception):
    """Nobody waits for this request any more: its time is over, or its client has gone."""


class Call:
    """A request on its way, seen by the thread that waits for it and the one that runs it.

    Attributes:
        tokens: How many the model was given for it, special tokens and what windows share counted.
        dropped: How many tokens were cut off each of its rows.
        gone: Whether nobody waits for it, or it has failed; what is left of it isn't run.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.dropped: list[int] = []
        self.gone = False
        self.results: queue.SimpleQueue[Outputs | Exception] = queue.SimpleQueue()

    def fail(self, error: Exception) -> None:
        """End it; the thread that waits for it raises ``error``."""
        self.gone = True
        self.results.put(error)

    def abandon(self) -> None:
        """End it as nobody waits for it."""
        self.fail(AbandonedError())

    def dropped_of(self, texts: int) -> list[int]:
        """Give the tokens cut off each of its texts: 0 where they were run in windows."""
        return self.dropped if len(self.dropped) == texts else [0] * texts


class _Job:
    """Rows of a call, taken from short to long, so that neighbours need little padding."""

    def __init__(self, call: Call, encodings: Sequence[Encoding]) -> None:
        self.call = call
        self.encodings = encodings
        self.rows = deque(sorted(range(len(encodings)), key=lambda row: len(encodings[row])))


_Taken: TypeAlias = "list[tuple[_Job, int]]"


class Batcher:
    """Runs rows as soon as the engine is free; nothing waits for company.

    A round takes a row of each request by turns until its tokens are full. So a request of one text
    is in the next round, whatever large ones are before it. How a round is cut into batches is
    `Engine.run_all`'s: an artifact whose results depend on batch-mates gets one text a call.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        pad_id: int,
        max_tokens: int,
        on_batch: Callable[[Batch], object],
    ) -> None:
        """Start the thread.

        Args:
            engine: Run by this thread alone.
            pad_id: Id of the padding token.
            max_tokens: Most tokens a round.
            on_batch: Told of each batch that was run.
        """
        self._engine = engine
        self._pad_id = pad_id
        self._max_tokens = max_tokens
        self._on_batch = on_batch
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether rows are run."""
        return self._thread.is_alive() and not self._closed

    def run(self, call: Call, encodings: Sequence[Encoding]) -> Iterator[Outputs]:
        """Hand rows over and wait for them, as `Engine.run_all` gives them.

        Raises:
            AbandonedError: Nobody waits for the call.
            BackendError: The engine failed on a row, or the batcher is closed.
        """
        with self._changed:
            if self._closed:
                raise BackendError("The server is stopping.")
            if encodings:
                self._jobs.append(_Job(call, encodings))
                self._changed.notify()
        call.tokens += sum(map(len, encodings))
        call.dropped += [one.dropped_tokens for one in encodings]
        left = len(encodings)
        while left:
            found = call.results.get()
            if isinstance(found, Exception):
                raise found
            left -= len(found[0])
            yield found

    def close(self) -> bool:
        """Fail what waits, and end the thread; False where it is still in the engine."""
        with self._changed:
            self._closed = True
            for job in self._jobs:
                job.call.fail(BackendError("The server is stopping."))
            self._jobs.clear()
            self._changed.notify()
        self._thread.join(_STOP_SECONDS)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while taken := self._take():
            self._run(taken)

    def _take(self) -> _Taken:
        """Wait for rows and take a round of them; none when it's closed."""
        with self._changed:
            while not self._closed:
                if taken := self._round():
                    return taken
                self._changed.wait()
        return []

    def _round(self) -> _Taken:
        taken: _Taken = []
        tokens = 0
        while self._jobs and len(taken) < _MOST_ROWS:
            job = self._jobs[0]
            if job.call.gone:
                self._jobs.popleft()
                continue
            tokens += len(job.encodings[job.rows[0]])
            if taken and tokens > self._max_tokens:
                break
            taken.append((job, job.rows.popleft()))
            self._jobs.popleft()
            if job.rows:
                self._jobs.append(job)  # its next row comes after one of each other request
        return taken

    def _run(self, taken: _Taken) -> None:
        """Run a round; where it fails, each row alone, so that only the sick one's call fails."""
        encodings = [job.encodings[row] for job, row in taken]
        left = set(range(len(taken)))
        try:
            for rows, batch, outputs in self._engine.run_all(
                encodings, pad_id=self._pad_id, max_tokens=self._max_tokens
            ):
                _deliver([taken[row] for row in rows], batch, outputs)
                left.difference_update(rows)
                self._on_batch(batch)
        except Exception as error:  # as a future does: it's raised where the result is awaited
            if len(taken) == 1:
                taken[0][0].call.fail(error)
                return
            logger.warning("%d rows failed together and are run one by one", len(left))
            for row in sorted(left):
                if not taken[row][0].call.gone:
                    self._run([taken[row]])


def _deliver(taken: _Taken, batch: Batch, outputs: dict[str, FloatArray]) -> None:
    """Give each request its own rows of a batch."""
    places: dict[_Job, list[int]] = {}
    for place, (job, _) in enumerate(taken):
        places.setdefault(job, []).append(place)
    for job, own in places.items():
        rows = [taken[place][1] for place in own]
        if len(places) == 1:
            job.call.results.put((rows, batch, outputs))
            continue
        at = np.array(own)
        part = batch.take(at, batch.input_ids.shape[1])
        job.call.results.put((rows, part, {name: found[at] for name, found in outputs.items()}))
