"""A database of ours alone, for what a store has no room for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgebert.errors import InputError, StoreError


class LocalSql:
    """A SQLite file of the journal's own, or a temporary one that nobody else sees."""

    def __init__(self, path: Path | None) -> None:
        """Open a file; None makes a temporary one, on disk where it gets large.

        Raises:
            InputError: It can't be opened, or is something else.
        """
        self._place = path or "a temporary file"
        try:
            self._database = sqlite3.connect("" if path is None else path, isolation_level=None)
            if path is not None:
                self._database.execute("PRAGMA journal_mode=WAL")
                self._database.execute("PRAGMA synchronous=FULL")  # a commit outlives a power cut
        except sqlite3.Error as error:
            raise InputError(
                f"{self._place} can't be opened as a journal ({error}). Is it one, in a folder "
                "that can be written to?"
            ) from error

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `Sql`."""
        with self._told():
            return self._database.execute(statement, tuple(values)).fetchall()

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """See `Sql`; all of it or nothing."""
        with self._told():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany(statement, rows)
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # it may have been undone by itself
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._place} failed ({error}); is the disk full?") from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()
