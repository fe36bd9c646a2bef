"""The first signal to stop is a request, which work meets where stopping is safe."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # a container is stopped by the second


class Request(Protocol):
    """Whether somebody asked to stop."""

    requested: bool


@contextmanager
def catch_signals(
    request: Request, *, said: str, warning: str, logger: logging.Logger
) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a request; a second one stops at once.

    In a thread other than the main one, where Python allows no handlers, nothing is caught.

    Args:
        request: Is told.
        said: Of the `KeyboardInterrupt` of the second signal.
        warning: Logged with the first.
        logger: Of the caller.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if request.requested:
            raise KeyboardInterrupt(said)
        request.requested = True
        logger.warning("%s", warning)

    before = {number: signal.signal(number, asked) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
