"""Threads that read and compute ahead, within bounds, and never hold up the end of a process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1  # how long a stop may go unnoticed


class Worker:
    """Runs jobs in a thread of its own, one after the other; or in so many threads."""

    def __init__(self, name: str, *, threads: int = 1) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._jobs = queue.SimpleQueue()
        # Daemons: a process that is told to stop doesn't wait for them.
        self._threads = [
            threading.Thread(target=self._work, name=name, daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queue a job; its result or its error is the future's."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return future

    def stop(self) -> None:
        """Begin no further job."""
        while True:
            try:
                waiting = self._jobs.get_nowait()
            except queue.Empty:
                break
            if waiting:
                waiting[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (waiting := self._jobs.get()) is not None:
            future, job = waiting
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
            del waiting, future, job  # or the last result would stay until the next job


def result_of(future: Future[T], check: Callable[[], None]) -> T:
    """Wait for a future, and call ``check``, which may raise, every now and then meanwhile."""
    while True:
        try:
            return future.result(timeout=_POLL_SECONDS)
        except futures.TimeoutError:
            if future.done():  # it's the job's own
                raise
            check()


def read_ahead(items: Iterable[T], *, most: int, check: Callable[[], None]) -> Iterator[T]:
    """Iterate in a thread, so many items ahead.

    Args:
        items: Iterated in that thread alone.
        most: How many wait at most.
        check: Called every now and then while there is none; may raise.
    """
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(most)
    stopped = threading.Event()

    def put(last: bool, item: object) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                ready.put((last, item), timeout=_POLL_SECONDS)
                return

    def work() -> None:
        try:
            for item in items:
                put(False, item)
                if stopped.is_set():
                    return
            put(True, None)
        except BaseException as error:
            put(True, error)

    threading.Thread(target=work, name="edgebert-read", daemon=True).start()
    try:
        while True:
            try:
                last, item = ready.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                check()
                continue
            if not last:
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        stopped.set()
