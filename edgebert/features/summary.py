"""What a run did, and how far it is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

STAGES = ("read", "tokenize", "run", "write")
_EVERY_SECONDS = 5.0


@dataclass
class Summary:
    """What a run did.

    Attributes:
        store: URI of the store.
        rows: That were read.
        added: That the store didn't have.
        changed: That it had otherwise, and has now as they are.
        unchanged: That it had as they are.
        kept: That have changed since; without ``update`` the store keeps them as they were.
        removed: That were no more in the source, with ``update``.
        quarantined: That can't be used.
        entries: Put into the store.
        held: Entries in the store now.
        tokens: Run by the model, special tokens counted.
        dropped_tokens: Cut off from long texts.
        quarantine: The file with those that can't be used; None where there is none.
        seconds: By stage; they overlap, and those of several processes are added up. ``total`` is
            the time that passed.
    """

    store: str
    rows: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    kept: int = 0
    removed: int = 0
    quarantined: int = 0
    entries: int = 0
    held: int = 0
    tokens: int = 0
    dropped_tokens: int = 0
    quarantine: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)


class Clock:
    """Counts the seconds of each stage, in any thread."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self._lock = threading.Lock()
        self._start = time.perf_counter()

    def add(self, stage: str, seconds: float) -> None:
        """Count seconds that went by elsewhere."""
        with self._lock:
            self._seconds[stage] += seconds

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Count what happens within."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - start)

    def read(self) -> dict[str, float]:
        """Give the seconds so far, by stage and in ``total``."""
        found = {**self._seconds, "total": time.perf_counter() - self._start}
        return {stage: round(seconds, 3) for stage, seconds in found.items()}


class Progress:
    """Logs every few seconds how far a run is, how fast, and how long it will take yet."""

    def __init__(self) -> None:
        self._begun: tuple[float, int, float] | None = None  # when, rows, fraction
        self._told = time.perf_counter()

    def tell(self, rows: int, fraction: float | None, *, idle: bool) -> None:
        """Say how far it is.

        Args:
            rows: That are done.
            fraction: Of the source that is done, 0 to 1; None where that can't be known.
            idle: Whether there was nothing to embed so far, as where a run goes on; that tells
                nothing of the time that the rest takes.
        """
        now = time.perf_counter()
        if idle or self._begun is None:
            self._begun = now, rows, fraction or 0.0
        if now - self._told < _EVERY_SECONDS:
            return
        self._told = now
        start, first, before = self._begun
        rate = (rows - first) / max(now - start, 1e-9)
        parts = [f"{rows} rows"] + ([f"{rate:.0f} a second"] if rate else [])
        if fraction is not None:
            parts.append(f"{fraction:.0%}")
            if fraction > before:
                left = (now - start) * (1 - fraction) / (fraction - before)
                parts.append(f"{_duration(left)} left")
        logger.info("%s", ", ".join(parts))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
