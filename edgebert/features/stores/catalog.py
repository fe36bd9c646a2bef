"""The catalog of a store that is a folder: one SQLite file that says which entry stands where."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from edgebert.errors import InputError, StoreError
from edgebert.features.stores.checks import slices

PAGE = 4096  # positions and vectors that are in memory at a time
TEXTS = 256  # the same of entries, whose texts may be long
_IDS = 500  # names in a statement: old SQLite takes 999 values
_WAIT_S = 60.0  # for another process that reads or commits
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS store_facts("
    "name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS store_parts("
    "part INTEGER PRIMARY KEY, rows INTEGER NOT NULL, live INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS store_entries("
    "id TEXT NOT NULL UNIQUE, part INTEGER NOT NULL, row INTEGER NOT NULL, place INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX IF NOT EXISTS store_rows ON store_entries(part, row)",
)


class Position(NamedTuple):
    """Where an entry stands.

    Attributes:
        id: Of the entry.
        part: Number of the file; 0 is the log, to which entries are appended.
        row: In that file, from 0.
        place: Byte at which its line begins, where entries are lines; else 0.
    """

    id: str
    part: int
    row: int
    place: int


class Part(NamedTuple):
    """How much of a file counts.

    Attributes:
        rows: In the file.
        live: Of those, how many are neither replaced nor deleted.
        bytes: Of its lines, where entries are lines; else 0.
    """

    rows: int
    live: int
    bytes: int


class Catalog:
    """What a folder's files mean, changed in transactions; the `Sql` of its store.

    Positions are committed after the bytes that they point to are on the disk, so that a killed
    process leaves bytes that nothing points to, and never the other way round. It keeps a rollback
    journal, not a write-ahead log: who reads holds off a commit, and with it a change of the files.
    """

    def __init__(self, path: Path, *, read_only: bool, place: str) -> None:
        self._place = place
        self._depth = 0
        # What a killed writer left is rolled back by whoever comes next, who must be able to.
        mode = "ro" if read_only and not os.access(path, os.W_OK) else "rw" if read_only else "rwc"
        with self._failures():
            self._database = sqlite3.connect(
                f"{path.as_uri()}?mode={mode}",
                uri=True,
                timeout=_WAIT_S,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            if read_only:
                self.execute("PRAGMA query_only = ON")
                if not self.execute("SELECT 1 FROM sqlite_master WHERE name = 'store_rows'"):
                    raise InputError(f"There is no store at {place}. Extract into it first.")
            else:
                self.execute("PRAGMA journal_mode = TRUNCATE")
                self.execute("PRAGMA synchronous = FULL")
                with self.transaction():
                    for statement in _SCHEMA:
                        self.execute(statement)
        except BaseException:
            self._database.close()
            raise

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"The catalog of {self._place} failed ({error}).") from error
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"The catalog of {self._place} is no store's, or damaged ({error}). Restore the "
                "folder, or extract anew into an empty one."
            ) from error

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """See `edgebert.features.stores.base.Sql`."""
        with self._failures():
            return self._database.execute(statement, values).fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """See `edgebert.features.stores.base.Sql`."""
        with self._failures(), self.transaction():
            self._database.executemany(statement, rows)

    @property
    def in_transaction(self) -> bool:
        """Whether changes wait for a commit."""
        return self._depth > 0

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Make what happens within all or nothing; one within another is a part of it."""
        if not self._depth:
            self.execute(begin)
        self._depth += 1
        try:
            yield
            if self._depth == 1:
                self.execute("COMMIT")
        except BaseException:
            if self._depth == 1 and self._database.in_transaction:
                self._database.rollback()
            raise
        finally:
            self._depth -= 1

    def fact(self, name: str) -> str | None:
        """Give what `set_fact` set."""
        rows = self.execute("SELECT value FROM store_facts WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def set_fact(self, name: str, value: str) -> None:
        """Keep something about the whole store."""
        self.execute("INSERT OR REPLACE INTO store_facts VALUES (?, ?)", (name, value))

    def parts(self) -> dict[int, Part]:
        """Give what counts of each file, by its number, rising."""
        rows = self.execute("SELECT part, rows, live, bytes FROM store_parts ORDER BY part")
        return {part: Part(*facts) for part, *facts in rows}

    def set_part(self, number: int, part: Part) -> None:
        """Say what counts of a file from now on."""
        self.execute("INSERT OR REPLACE INTO store_parts VALUES (?, ?, ?, ?)", (number, *part))

    def drop_part(self, number: int) -> None:
        """Say that there is no such file any more."""
        self.execute("DELETE FROM store_parts WHERE part = ?", (number,))

    def find(self, ids: Sequence[str]) -> dict[str, Position]:
        """Give the positions of those that are there."""
        found = {}
        for some in slices(ids, _IDS):
            marks = ", ".join("?" * len(some))
            statement = f"SELECT id, part, row, place FROM store_entries WHERE id IN ({marks})"
            found.update({row[0]: Position(*row) for row in self.execute(statement, some)})
        return found

    def at(self, part: int, rows: Sequence[int]) -> list[Position]:
        """Give the positions of rows of a file, of those that count, in rising order."""
        found = []
        for some in slices(sorted(rows), _IDS):
            statement = (
                "SELECT id, part, row, place FROM store_entries WHERE part = ? "
                f"AND row IN ({', '.join('?' * len(some))}) ORDER BY row"
            )
            found += [Position(*row) for row in self.execute(statement, (part, *some))]
        return found

    def pages(self, part: int, *, first: int = 0) -> Iterator[list[Position]]:
        """Give all that counts of a file from a row on, in order, `PAGE` at a time.

        What was given may be moved to earlier rows meanwhile, or to another file.
        """
        statement = (
            "SELECT id, part, row, place FROM store_entries WHERE part = ? AND row >= ? "
            f"ORDER BY row LIMIT {PAGE}"
        )
        while page := [Position(*row) for row in self.execute(statement, (part, first))]:
            yield page
            first = page[-1].row + 1

    def id_page(self, after: str) -> list[str]:
        """Give the next ids, in rising order."""
        statement = f"SELECT id FROM store_entries WHERE id > ? ORDER BY id LIMIT {PAGE}"
        return [name for (name,) in self.execute(statement, (after,))]

    def add(self, positions: Sequence[Position], *, size: int) -> None:
        """Count entries that were appended to the log.

        Args:
            positions: Of ids that aren't there, in rows that follow the last.
            size: Bytes of the log's lines by now.
        """
        self.execute_many("INSERT INTO store_entries VALUES (?, ?, ?, ?)", positions)
        log, more = self.parts()[0], len(positions)
        self.set_part(0, Part(log.rows + more, log.live + more, size))

    def forget(self, ids: Sequence[str]) -> None:
        """Count entries no more, wherever they stand."""
        found = self.find(ids).values()
        self.execute_many(
            "DELETE FROM store_entries WHERE id = ?", [(position.id,) for position in found]
        )
        self.execute_many(
            "UPDATE store_parts SET live = live - 1 WHERE part = ?",
            [(position.part,) for position in found],
        )

    def move(self, old: Sequence[Position], new: Sequence[Position]) -> None:
        """Say where entries stand from now on."""
        self.execute_many(
            "UPDATE store_entries SET part = ?, row = ?, place = ? WHERE part = ? AND row = ?",
            [(to.part, to.row, to.place, at.part, at.row) for at, to in zip(old, new, strict=True)],
        )

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


def lock_writing(path: Path, *, place: str) -> sqlite3.Connection:
    """Be the only one who writes, until the connection is closed or the process is gone.

    Args:
        path: A file for nothing else. SQLite's locks are the system's own, on every system.
        place: The store, for the message.

    Raises:
        StoreError: Another one is.
    """
    lock = None
    try:
        lock = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if lock is not None:
            lock.close()
        raise StoreError(
            f"{place} can't be locked to be written ({error}). Another process, or another part "
            "of this one, has it open; wait until it's done, or open it with read_only."
        ) from error
    return lock
