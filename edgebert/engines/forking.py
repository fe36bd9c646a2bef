"""Let no fork happen while an engine is at work: the child would wait for its locks for ever."""

from __future__ import annotations

# What registers last shuts first. These two hold locks of their own during a fork, which native
# work takes too (a log line, a job for another thread): so they must come before the gate.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
from types import TracebackType


class ForkGate:
    """Entered around native work, from any number of threads at once; a fork waits for all of them.

    A forked child has none of its parent's other threads, but what they had locked stays locked:
    with two threads inside OpenVINO, 1 child of 12 never got past opening a model of its own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._depths: dict[int, int] = {}  # of the threads inside, by how often they entered
        self._forks = 0  # under way or waiting
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(
                before=self._shut, after_in_parent=self._open, after_in_child=self._start_again
            )

    def __enter__(self) -> None:
        me = threading.get_ident()
        if me in self._depths:  # a fork waits for this thread, so this thread can't for the fork
            self._depths[me] += 1
            return
        with self._changed:
            while self._forks:
                self._changed.wait()
            self._depths[me] = 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        me = threading.get_ident()
        if self._depths[me] > 1:
            self._depths[me] -= 1
            return
        with self._changed:
            del self._depths[me]
            self._changed.notify_all()

    def _shut(self) -> None:
        with self._changed:
            self._forks += 1
            while self._depths.keys() - {threading.get_ident()}:  # a signal's handler may fork too
                self._changed.wait()

    def _open(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def _start_again(self) -> None:
        me = threading.get_ident()
        self._changed = threading.Condition()
        self._depths = {me: self._depths[me]} if me in self._depths else {}
        self._forks = 0


NATIVE_WORK = ForkGate()
"""Of this process."""
