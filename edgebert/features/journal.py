"""What was stored of which row: a table beside the vectors, so that no row is lost or doubled.

A row of the journal says what its source row was (a digest) and which entries the store has of it.
Where the store has a database with transactions, both change in one. Elsewhere a write has three
steps, each of which may be done again: the journal says that the row is unsettled, and names every
entry that the store may have of it; the store writes the new entries and then deletes the old ones;
the journal says that it's done. A run that finds an unsettled row embeds it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from edgebert.features.entries import Entry, Identity, Vectors
from edgebert.features.local_sql import LocalSql
from edgebert.features.rows import Row
from edgebert.features.stores.base import Sql, Store

logger = logging.getLogger(__name__)

UNSETTLED, BEGUN = "", "new"  # in the place of a digest
_PAGE = 1000
_AT_ONCE = 500  # values of one statement; SQLite's oldest limit is 999


def digest_of(row: Row) -> str:
    """Give what changes when a row does: 32 hexadecimal digits of SHA-256."""
    facts = json.dumps([row.text, row.metadata], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class Mark:
    """What the journal has of a source row.

    Attributes:
        key: Of the row.
        digest: See `digest_of`; of one whose writing did not end `UNSETTLED`, or `BEGUN` where it
            was the first time.
        ids: Of the entries that the store has of it, or may have.
    """

    key: str
    digest: str
    ids: tuple[str, ...]

    @property
    def settled(self) -> bool:
        """Whether the store has those entries, and no others of the row."""
        return self.digest not in (UNSETTLED, BEGUN)

    @property
    def unsettled(self) -> Mark:
        """The same row, to be written again."""
        return self if self.digest == BEGUN else replace(self, digest=UNSETTLED)


class Journal:
    """Writes rows to a store so that each is there once, whenever the process ends.

    A store without an identity gets it with the first rows, so that a run that finds none leaves
    nothing behind.
    """

    def __init__(
        self, store: Store, identity: Identity | None = None, *, table: str = "edgebert_journal"
    ) -> None:
        """Open the journal of a store.

        Args:
            store: Stays open.
            identity: Of a store that has none yet.
            table: Name of the journal's table in the store's own database.
        """
        self._store, self._identity, self._table = store, identity, table
        self._local: LocalSql | None = None
        self._database: Sql | None = None
        self._is_new = store.identity is None
        if not self._is_new:
            self._begin()

    def _begin(self) -> None:
        """Bind the store if it isn't, and make the table."""
        if self._store.identity is None and self._identity is not None:
            self._store.bind(self._identity)
        own = self._store.sql()
        self._together = own is not None
        if own is None:
            self._local = LocalSql(self._store.journal_path())
        self._database = own or self._local
        self._sql.execute(
            f'CREATE TABLE IF NOT EXISTS {self._table} ("key" TEXT PRIMARY KEY, '
            "digest TEXT NOT NULL, ids TEXT NOT NULL, entries INTEGER NOT NULL)"
        )
        if self._is_new and len(self):
            logger.warning("The journal is of a store that is gone, so it begins anew")
            self._sql.execute(f"DELETE FROM {self._table}")

    @property
    def _sql(self) -> Sql:
        assert self._database is not None  # whoever wrote or found something has it
        return self._database

    def close(self) -> None:
        """Close what isn't the store's."""
        if self._local is not None:
            self._local.close()

    def __len__(self) -> int:
        if self._database is None:
            return 0
        return int(self._sql.execute(f"SELECT count(*) FROM {self._table}")[0][0])

    def find(self, keys: Sequence[str]) -> dict[str, Mark]:
        """Give the marks of those keys that have one."""
        found: list[Mark] = []
        if self._database is None:
            return {}
        for first in range(0, len(keys), _AT_ONCE):
            some = keys[first : first + _AT_ONCE]
            found += self._marks(f'WHERE "key" IN ({", ".join("?" * len(some))})', some)
        return {mark.key: mark for mark in found}

    def every(self) -> Iterator[Mark]:
        """Give all marks by rising key, in bounded memory; they may change meanwhile."""
        last: str | None = None
        while self._database is not None:
            where = "" if last is None else 'WHERE "key" > ?'
            values = [] if last is None else [last]
            page = self._marks(f'{where} ORDER BY "key" LIMIT {_PAGE}', values)
            if not page:
                return
            yield from page
            last = page[-1].key

    def write(
        self, marks: Sequence[Mark], entries: Sequence[Entry], vectors: Vectors, old: Sequence[Mark]
    ) -> None:
        """Store new or changed rows; their former entries go when the new ones are there.

        Args:
            marks: What the rows are from now on.
            entries: All of theirs.
            vectors: One for each entry.
            old: What the journal has of those rows.

        Raises:
            StoreError: The store failed; the same call again puts it right.
        """
        if self._database is None:
            self._begin()
        new = {entry.id for entry in entries}
        gone = [one for mark in old for one in mark.ids if one not in new]
        if self._together:
            with self._store.transaction():
                self._store.write(entries, vectors)
                self._store.delete(gone)
                self.put(marks)
            return
        before = {mark.key: mark.unsettled for mark in old}
        self.put([_joined(before.get(one.key, Mark(one.key, BEGUN, ())), one) for one in marks])
        self._store.write(entries, vectors)
        self._store.delete(gone)
        self.put(marks)

    def remove(self, marks: Sequence[Mark]) -> None:
        """Remove rows with all their entries.

        Raises:
            StoreError: See `write`.
        """
        if not self._together:
            self.put([mark.unsettled for mark in marks])
        with self._store.transaction():
            self._store.delete([one for mark in marks for one in mark.ids])
            statement = f'DELETE FROM {self._table} WHERE "key" = ?'
            self._sql.execute_many(statement, [(mark.key,) for mark in marks])

    def put(self, marks: Sequence[Mark]) -> None:
        """Write marks, over those of the same key."""
        rows = [(one.key, one.digest, " ".join(one.ids), len(one.ids)) for one in marks]
        statement = (
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?) "
            'ON CONFLICT ("key") DO UPDATE SET digest = excluded.digest, ids = excluded.ids, '
            "entries = excluded.entries"
        )
        self._sql.execute_many(statement, rows)

    def settle(self, *, place: str) -> None:
        """Find out where journal and store differ, and mark those rows as unsettled.

        They differ where the store or the journal was removed, put back from an older copy, or
        changed by somebody else. After a run of ours that was killed they don't.

        Args:
            place: The store, for what is logged.
        """
        if self._database is None:
            return
        held, rows = len(self._store), len(self)
        if rows and not held:
            if self._settled_entries():  # else a kill came before the first write's end
                logger.warning("%s is empty, so its journal begins anew", place)
            self._sql.execute(f"DELETE FROM {self._table}")
        elif held and not rows:
            logger.warning("%s has no journal; every row is embedded again, in its place", place)
            self._adopt()
        elif held < self._settled_entries():
            logger.warning("%s lacks entries of its journal; their rows are embedded again", place)
            self._unsettle_missing()

    def _settled_entries(self) -> int:
        statement = f"SELECT sum(entries) FROM {self._table} WHERE digest NOT IN (?, ?)"
        return int(self._sql.execute(statement, [UNSETTLED, BEGUN])[0][0] or 0)

    def _adopt(self) -> None:
        for ids in _pages(self._store.ids()):
            by_key: dict[str, list[str]] = {}
            for entry in self._store.entries(ids):
                by_key.setdefault(entry.key, []).append(entry.id)
            known = self.find(list(by_key))
            self.put(
                [
                    Mark(key, UNSETTLED, (*(known[key].ids if key in known else ()), *own))
                    for key, own in by_key.items()
                ]
            )

    def _unsettle_missing(self) -> None:
        with closing(LocalSql(None)) as there:
            there.execute("CREATE TABLE held (id TEXT PRIMARY KEY) WITHOUT ROWID")
            for ids in _pages(self._store.ids()):
                there.execute_many("INSERT INTO held VALUES (?)", [(one,) for one in ids])
            for mark in self.every():
                held = (there.execute("SELECT 1 FROM held WHERE id = ?", [x]) for x in mark.ids)
                if not all(held):
                    self.put([mark.unsettled])

    def _marks(self, condition: str, values: Sequence[Any]) -> list[Mark]:
        found = self._sql.execute(
            f'SELECT "key", digest, ids FROM {self._table} {condition}', values
        )
        return [Mark(key, digest, tuple(ids.split())) for key, digest, ids in found]


def _joined(before: Mark, mark: Mark) -> Mark:
    return replace(before, ids=tuple(dict.fromkeys((*before.ids, *mark.ids))))


def _pages(ids: Iterator[str]) -> Iterator[list[str]]:
    while page := list(islice(ids, _PAGE)):
        yield page
