"""Rows that can't be used: each a line of a file, with why."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, TextIO

from edgebert.errors import DataError, InputError
from edgebert.features.rows import Row
from edgebert.files import check_parent

logger = logging.getLogger(__name__)

MAX_BAD = 1000  # by default; more is rather a wrong column than bad rows
_FIELDS = ("key", "place", "reason", "text")
_SHOWN = 5
_SHOWN_CHARACTERS = 500


class Quarantine:
    """Writes bad rows of this run as JSON lines; the file is there when there is a bad row.

    Attributes:
        count: Rows so far.
        without_key: How many of them have no key that can be used.
    """

    def __init__(self, path: Path | None, *, most: int | None) -> None:
        """Begin anew: a run looks at all rows again.

        Args:
            path: The file; None where there is no place for one.
            most: The row after so many stops the run; None never stops it.

        Raises:
            InputError: Something else stands at ``path``, or ``most`` is no number.
        """
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise InputError(f"max_bad is {most!r}; it must be a whole number, 0 or more, or None.")
        self.path, self._most = path, most
        self.count = self.without_key = 0
        self._stream: TextIO | None = None
        if path is not None:
            check_parent(path)
            _remove_former(path)

    def add(self, row: Row, reason: str) -> None:
        """Write a row down.

        Raises:
            DataError: There are more than may be, or there is no place to write them to.
        """
        if self.path is None:
            raise DataError(
                f"{row.place} can't be used ({reason}), and this store has no place beside it to "
                "say so; give one with --quarantine FILE."
            )
        self.count += 1
        self.without_key += row.key is None
        if self._stream is None:
            self._stream = self.path.open("w", encoding="utf-8")
        text = row.text[:_SHOWN_CHARACTERS]
        values = (row.key, row.place, reason, text)
        line = json.dumps(dict(zip(_FIELDS, values, strict=True)), ensure_ascii=False)
        self._stream.write(line + "\n")
        self._stream.flush()
        if self.count <= _SHOWN:
            logger.warning("%s is left out: %s", row.place, reason)
        if self._most is not None and self.count > self._most:
            raise DataError(
                f"{self.count} rows can't be used, more than --max-bad {self._most}; the last is "
                f"{row.place}: {reason}. All are in {self.path}. What was stored stays; correct "
                "them, or allow more, and run it again."
            )

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def _remove_former(path: Path) -> None:
    """Remove the file of an earlier run, and nothing else."""
    if not path.exists():
        return
    try:
        with path.open(encoding="utf-8") as stream:
            first: Any = json.loads(stream.readline(1 << 16) or "null")
    except (OSError, ValueError):
        first = 0
    if first is not None and not (isinstance(first, dict) and tuple(first) == _FIELDS):
        raise InputError(
            f"{path} is there and no quarantine file of edgebert; give --quarantine another path."
        )
    path.unlink()
