"""How much of the time limit is left, over all runs of a resumed search."""

from __future__ import annotations

import json
import time
from pathlib import Path

from edgebert.files import write_json


class Clock:
    """Counts a search's wall seconds; what a killed run had not saved isn't counted.

    Args:
        file: Where they are kept.
        limit_s: Seconds that the whole may take.
    """

    def __init__(self, file: Path, *, limit_s: float) -> None:
        self._file, self._limit_s = file, limit_s
        self._began = time.monotonic()
        self._before = 0.0
        if file.is_file():
            self._before = float(json.loads(file.read_text(encoding="utf-8"))["seconds"])

    @property
    def spent_s(self) -> float:
        """Give the seconds since the search began."""
        return self._before + time.monotonic() - self._began

    def left_s(self, part: float = 1.0) -> float:
        """Give the seconds until a part of the limit is over; 0 where it is.

        Args:
            part: 0 to 1.
        """
        return max(0.0, self._limit_s * part - self.spent_s)

    def save(self) -> None:
        """Keep what is spent."""
        write_json(self._file, {"seconds": round(self.spent_s, 2)})
