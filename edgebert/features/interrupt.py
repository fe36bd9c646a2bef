"""Ctrl+C ends an extraction between two writes, so that it can be gone on with."""

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
_SAID = "interrupted; what is stored stays, and the same command goes on from there"


@dataclass
class Interrupt:
    """Whether somebody asked to stop."""

    requested: bool = False

    def check(self) -> None:
        """Raise `KeyboardInterrupt`, which a command turns into exit code 130, if requested."""
        if self.requested:
            raise KeyboardInterrupt(_SAID)


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
            raise KeyboardInterrupt(_SAID)
        interrupt.requested = True
        logger.warning("Stopping after the write that is under way; once more stops at once.")

    before = {number: signal.signal(number, request) for number in _SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
