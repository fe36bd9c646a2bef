"""Ctrl+C ends an extraction between two writes, so that it can be gone on with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgebert.interrupt import catch_signals

logger = logging.getLogger(__name__)

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
    """Turn the first SIGINT or SIGTERM into a request; see `catch_signals`."""
    interrupt = Interrupt()
    warning = "Stopping after the write that is under way; once more stops at once."
    with catch_signals(interrupt, said=_SAID, warning=warning, logger=logger):
        yield interrupt
