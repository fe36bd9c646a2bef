"""Rows to vectors in two threads: one tokenizes while the other runs the engine."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Protocol

from edgebert.features.model import Embedded, Model, Prepared
from edgebert.features.rows import Row
from edgebert.features.summary import Clock
from edgebert.features.threads import Worker


class Embedder(Protocol):
    """What turns blocks of rows into vectors, in the background.

    Attributes:
        count: How many blocks are at work at once.
    """

    count: int

    def submit(self, rows: list[Row]) -> Future[Embedded]:
        """Queue a block; its vectors or its error are the future's."""

    def stop(self) -> None:
        """Begin no further block."""


class Chain:
    """Tokenizes in one thread and runs in another; see `Embedder`."""

    count = 1

    def __init__(self, model: Model, clock: Clock) -> None:
        """Take a model, which stays open, and the clock that counts the stages."""
        self._model, self._clock = model, clock
        self._tokenizer, self._engine = Worker("edgebert-tokenize"), Worker("edgebert-run")

    def submit(self, rows: list[Row]) -> Future[Embedded]:
        """See `Embedder.submit`."""
        prepared = self._tokenizer.submit(partial(self._prepare, rows))
        return self._engine.submit(partial(self._embed, prepared))

    def stop(self) -> None:
        """See `Embedder.stop`."""
        self._tokenizer.stop()
        self._engine.stop()

    def _prepare(self, rows: list[Row]) -> Prepared:
        with self._clock.of("tokenize"):
            return self._model.prepare(rows)

    def _embed(self, prepared: Future[Prepared]) -> Embedded:
        ready = prepared.result()
        with self._clock.of("run"):
            return self._model.embed(ready)
