"""Let no fork happen while an engine is at work: the child would wait for its locks for ever."""

from __future__ import annotations

# What registers last shuts first. These two hold locks of their own during a fork, which native
# work takes too (a log line, a job for another thread): so they must come before the gate.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
import time
from pathlib import Path
from types import TracebackType

_THREADS = Path("/proc/self/task")
_SETTLE_SECONDS = 0.1


class ForkGate:
    """Entered around native work, from any number of threads at once; a fork waits for all of them.

    A forked child has none of its parent's other threads, but what they had locked stays locked:
    with two threads inside OpenVINO, 1 child of 12 never got past opening a model of its own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._depths: dict[int, int] = {}  # of the threads inside, by how often they entered
        self._forks = 0  # under way or waiting
        self._used = False
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
            self._used = True

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
        if self._used:
            _settle()

    def _open(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def _start_again(self) -> None:
        me = threading.get_ident()
        self._changed = threading.Condition()
        self._depths = {me: self._depths[me]} if me in self._depths else {}
        self._forks = 0


def _settle() -> None:
    """Wait until all other threads of the process sleep, for a tenth of a second at most.

    An engine's own threads go on for a moment after a call, and may hold a lock of theirs in it: 1
    child in 15 never got past opening a model, as OpenVINO's had. Linux alone tells.
    """
    me, end, quiet = str(threading.get_native_id()), time.monotonic() + _SETTLE_SECONDS, 0
    while _THREADS.is_dir() and quiet < 2 and time.monotonic() < end:
        quiet = quiet + 1 if _others_sleep(me) else 0
        time.sleep(0.0005)


def _others_sleep(me: str) -> bool:
    for thread in _THREADS.iterdir():
        if thread.name != me:
            try:
                stat = (thread / "stat").read_bytes()
            except OSError:  # it has just ended
                continue
            if stat.rpartition(b")")[2].split()[0] not in (b"S", b"D"):
                return False
    return True


NATIVE_WORK = ForkGate()
"""Of this process."""
