"""Ctrl+C waits for a safe point, so that it costs no work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgebert.interrupt import catch_signals

logger = logging.getLogger(__name__)


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
    """Turn the first SIGINT or SIGTERM into a request; see `catch_signals`."""
    interrupt = Interrupt()
    warning = "Stopping at the next safe point; once more stops at once."
    said = "interrupted; go on with --resume"
    with catch_signals(interrupt, said=said, warning=warning, logger=logger):
        yield interrupt
