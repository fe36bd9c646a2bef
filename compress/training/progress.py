"""How far long work is: a bar on a terminal, a rare log line elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

logger = logging.getLogger(__name__)

_BAR_CELLS = 24
_REDRAW_SECONDS = 0.2
_LOG_SECONDS = 30.0


class Progress:
    """Show rate and time left on stderr; without a terminal, a log line every half minute.

    Use it as a context manager. An update that shows nothing costs a microsecond.

    Args:
        total: Units of work in all.
        label: What the work is, like ``distill``.
        unit: What is counted, in the plural.
        done: Units that an earlier run has done; the rate leaves them out.
        stream: Where the bar goes; stderr by default.
        clock: Gives seconds; for tests.
    """

    def __init__(
        self,
        total: int,
        *,
        label: str,
        unit: str = "steps",
        done: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._label, self._unit = total, label, unit
        self._first = self._done = done
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._every = _REDRAW_SECONDS if self._terminal else _LOG_SECONDS
        self._began = self._shown = clock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def update(self, done: int, note: Callable[[], str] | None = None) -> None:
        """Say that ``done`` units are done; ``note`` is called only if something is shown."""
        self._done = done
        now = self._clock()
        if now - self._shown < self._every:
            return
        self._shown = now
        text = self.describe(now) + (f", {note()}" if note else "")
        if self._terminal:
            self._stream.write(f"\r{self._bar()} {text}\x1b[K")
            self._stream.flush()
        else:
            logger.info("%s", text)

    def clear(self) -> None:
        """Take the bar off the terminal, so that a log line can be read."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def describe(self, now: float) -> str:
        """Give one line: what is done, how fast, how long it will take still."""
        text = f"{self._label}: {self._done}/{self._total} {self._unit}"
        new, elapsed = self._done - self._first, now - self._began
        if new <= 0 or elapsed <= 0:
            return text
        rate = new / elapsed
        left = format_seconds((self._total - self._done) / rate)
        return f"{text}, {rate:.{1 if rate < 100 else 0}f}/s, {left} left"

    def _bar(self) -> str:
        full = round(_BAR_CELLS * self._done / max(1, self._total))
        return "[" + "#" * full + "." * (_BAR_CELLS - full) + "]"


def format_seconds(seconds: float) -> str:
    """Write a duration as ``7s``, ``3m 20s`` or ``1h 05m``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
