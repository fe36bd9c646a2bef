"""Ctrl+C waits for a safe point, so that it costs no work."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # a container is stopped by the second


@dataclass
class Interrupt:
    """Whether somebody asked to stop.

    Attributes:
        requested: Look at it wherever stopping is safe.
    """

    requested: bool = False

    def stop(self, where: str) -> None:
        """Raise `KeyboardInterrupt`, which a command turns into exit code 130, if requested.

        Args:
            where: How far the work is, like ``step 120``; it is saved up to there.
        """
        if self.requested:
            raise KeyboardInterrupt(f"interrupted at {where}; go on with --resume")


@contextmanager
def catch_interrupt() -> Iterator[Interrupt]:
    """Turn the first SIGINT or SIGTERM into a request; a second one stops at once.

    In a thread other than the main one, where Python allows no handlers, nothing is caught.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def request(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if interrupt.requested:
            raise KeyboardInterrupt("interrupted; go on with --resume")
        interrupt.requested = True
        logger.warning("Stopping at the next safe point; once more stops at once.")

    before = {number: signal.signal(number, request) for number in _SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
