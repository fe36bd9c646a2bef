"""Things that one thread at a time may use: lent, given back, made when none is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Semaphore
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Pool(Generic[Item]):
    """Lends up to ``limit`` items at once; the one used last is lent first."""

    def __init__(self, make: Callable[[], Item], *, limit: int) -> None:
        self._make = make
        self._slots = Semaphore(limit)
        self._idle: deque[Item] = deque()
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[Item]:
        """Lend an item, when one is free; one whose use ended in an error is thrown away."""
        with self._slots:
            yield from self._lend()

    @contextmanager
    def borrow_now(self) -> Iterator[Item | None]:
        """Lend an item, or None when all are in use."""
        if not self._slots.acquire(blocking=False):
            yield None
            return
        try:
            yield from self._lend()
        finally:
            self._slots.release()

    def _lend(self) -> Iterator[Item]:
        try:
            item = self._idle.pop()
        except IndexError:
            item = self._make()
        yield item
        if not self._closed:
            self._idle.append(item)

    def close(self) -> None:
        """Forget the idle items, and those in use as they come back."""
        self._closed = True
        self._idle.clear()
