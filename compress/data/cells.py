"""What a data file holds, before anyone says which columns count: cells, their lines, bad rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgebert.errors import DataError

_SHOWN_ROWS = 10


@dataclass
class BadRows:
    """Collects the rows of one file that can't be used, to name them all in one error.

    Attributes:
        source: The file, as the error shows it.
        unit: What the numbers count: ``line``, or ``row`` for a file without lines.
    """

    source: str
    unit: str = "line"
    _found: dict[int, str] = field(default_factory=dict)

    def add(self, line: int, why: str) -> None:
        """Note a bad row by its number from 1; the first reason of a row is kept."""
        self._found.setdefault(line, why)

    def raise_if_any(self) -> None:
        """Raise a `DataError` that names the first ten bad rows and says how many there are."""
        if not self._found:
            return
        count = len(self._found)
        shown = sorted(self._found.items())[:_SHOWN_ROWS]
        listed = "; ".join(f"{self.source}:{line}: {why}" for line, why in shown)
        more = f"; and {count - len(shown)} more" if count > len(shown) else ""
        rows = f"1 bad {self.unit}" if count == 1 else f"{count} bad {self.unit}s"
        raise DataError(f"{self.source} has {rows}: {listed}{more}. Correct or remove them.")


@dataclass(frozen=True)
class Table:
    """One file's cells by column.

    Attributes:
        columns: Cells by column name, all of the same length; a missing JSONL key gives None. In
            a file without header the names are ``"0"``, ``"1"``, ….
        lines: Line of each row, from 1.
        bad: Rows that could not be read; they are not in ``columns``.
        has_header: Whether the names were found in the file.
        plain: A ``.txt`` file: one text a line, no columns to choose from.
        item_lines: A CoNLL file: the items of a list in a cell stand on lines of their own, from
            the row's on.
    """

    columns: dict[str, list[Any]]  # str from text files; what the format holds from the others
    lines: list[int]
    bad: BadRows
    has_header: bool = True
    plain: bool = False
    item_lines: bool = False

    @property
    def source(self) -> str:
        """Name the file, as messages show it."""
        return self.bad.source

    def __len__(self) -> int:
        return len(self.lines)
