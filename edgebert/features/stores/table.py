"""A store that is a table of a SQL database: what SQLite, DuckDB and PostgreSQL share."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from edgebert.errors import InputError
from edgebert.features.entries import Entry, Hit, Identity, Scalar, Vectors
from edgebert.features.stores.base import Sql, Store
from edgebert.features.stores.checks import (
    check_query,
    check_writable,
    check_write,
    in_order,
    no_vectors,
    slices,
)
from edgebert.features.stores.connection import Connection
from edgebert.features.stores.exact import matches, nearest
from edgebert.types import FloatArray

COLUMNS = 'id, "key", chunk, start, "end", text, metadata'  # of an entry
IDS_OF_A_PAGE = 20_000
BLOCK_BYTES = 2 << 20  # of the vectors that an exact search holds


class TableStore(Store):
    """Keeps entries and their vectors in one table, and its identity in another.

    Args:
        database: An open connection; None of a place that isn't there yet.
        place: What messages call it.
        read_only: Whether to refuse changes.
    """

    snapshot: ClassVar[str] = "BEGIN"  # a transaction that only reads
    ids_at_once: ClassVar[int] = 500  # values of one statement; SQLite's oldest limit is 999
    columns: ClassVar[str] = COLUMNS  # of what `_entry` takes
    table: str = "entries"

    def __init__(self, database: Connection | None, *, place: str, read_only: bool) -> None:
        self._database = database
        self._place = place
        self._read_only = read_only
        self._identity = None if database is None else self._read_identity()

    # What each database does in its own way

    @abstractmethod
    def _connect_new(self) -> Connection:
        """Make a database where there is none."""

    @abstractmethod
    def _read_identity(self) -> Identity | None:
        """Read it; None where there is none yet."""

    @abstractmethod
    def _keep_identity(self, identity: Identity) -> None:
        """Make the tables and write it, unless another has; within a transaction."""

    @abstractmethod
    def _put(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """Insert rows or replace those of the same id, within a transaction."""

    @abstractmethod
    def _unpack(self, cells: Sequence[Any]) -> Vectors:
        """Turn what the column of vectors gives into an array, one row or more."""

    @abstractmethod
    def _blocks(self, where: Mapping[str, Scalar]) -> Iterator[list[tuple[Any, ...]]]:
        """Give rows of id, key, metadata, vector in pieces of some `BLOCK_BYTES`.

        Args:
            where: May be used to give fewer rows, or not.
        """

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        return as_entry(row)

    def _indexed(
        self, vector: FloatArray, k: int, where: Mapping[str, Scalar], *, exact: bool
    ) -> list[str] | None:
        """Let the database find the nearest, or some more of them.

        Args:
            vector: float32 ``[dim]``.
            k: How many are needed.
            where: May be used to find fewer, or not.
            exact: All of the `k` nearest must be among them.

        Returns:
            Ids in any order; None where it can't.
        """
        del vector, k, where, exact
        return None

    def _block_rows(self) -> int:
        """Say how many rows a piece of `_blocks` has."""
        return max(1, BLOCK_BYTES // (4 * self._bound.dim))

    # What all do

    @property
    def identity(self) -> Identity | None:
        return self._identity

    def bind(self, identity: Identity) -> None:
        if self._identity is None:
            check_writable(read_only=self._read_only, place=self._place)
            if self._database is None:
                self._database = self._connect_new()
            with self.transaction():
                self._keep_identity(identity)
            self._identity = self._read_identity()
        assert self._identity is not None
        self._identity.require(identity, place=self._place)

    def __len__(self) -> int:
        if self._identity is None:
            return 0
        return int(self._opened.execute(f"SELECT count(*) FROM {self.table}")[0][0])

    def ids(self) -> Iterator[str]:
        last = ""
        while self._identity is not None:
            rows = self._opened.execute(
                f"SELECT id FROM {self.table} WHERE id > ? ORDER BY id LIMIT {IDS_OF_A_PAGE}",
                [last],
            )
            if not rows:
                return
            yield from (str(row[0]) for row in rows)
            last = str(rows[-1][0])

    def get(self, ids: Sequence[str]) -> Vectors:
        cells = dict(self._found("id, vector", ids))
        ordered = in_order(cells, ids, place=self._place)
        return self._unpack(ordered) if ordered else no_vectors(self._identity)

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        found = {row[0]: self._entry(row) for row in self._found(self.columns, ids)}
        return in_order(found, ids, place=self._place)

    def _found(self, columns: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for some in slices(ids if self._identity else [], self.ids_at_once):
            found += self._select(
                f"SELECT {columns} FROM {self.table} WHERE id IN ({marks(some)})", some
            )
        return found

    def _select(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Give rows that may hold vectors, as `_unpack` takes them."""
        return self._opened.execute(statement, values)

    def write(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        check_writable(read_only=self._read_only, place=self._place)
        check_write(self._identity, entries, vectors, place=self._place)
        if not entries:
            return
        try:
            with self.transaction():
                self._put(entries, vectors)
        except UnicodeEncodeError as error:
            raise InputError(f"A text can't be kept, for it isn't Unicode: {error}.") from error

    def delete(self, ids: Sequence[str]) -> None:
        check_writable(read_only=self._read_only, place=self._place)
        if self._identity is None:
            return
        with self.transaction():
            for some in slices(ids, self.ids_at_once):
                self._opened.execute(f"DELETE FROM {self.table} WHERE id IN ({marks(some)})", some)

    def search(
        self,
        vector: FloatArray,
        k: int,
        *,
        where: Mapping[str, Scalar] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        identity = self._identity
        if identity is None:
            return []
        check_query(identity, vector, k)
        with self._opened.within(self.snapshot):
            return self._search(identity, vector, k, where or {}, exact=exact)

    def _search(
        self,
        identity: Identity,
        vector: FloatArray,
        k: int,
        asked: Mapping[str, Scalar],
        *,
        exact: bool,
    ) -> list[Hit]:
        ids = self._indexed(vector, k, asked, exact=exact)
        found = self.entries(ids) if ids is not None else []
        if ids and all(matches(entry, asked) for entry in found):
            best = nearest([(ids, self.get(ids))], vector, k, identity)
        else:  # without an index, or where its filter let something pass
            best = nearest(self._candidates(asked), vector, k, identity)
            found = self.entries([name for name, _ in best])
        entries = {entry.id: entry for entry in found}
        return [Hit(entry=entries[name], score=score) for name, score in best]

    def _candidates(self, where: Mapping[str, Scalar]) -> Iterator[tuple[list[str], Vectors]]:
        for rows in self._blocks(where):
            rows = [row for row in rows if not where or _agrees(row[1], row[2], where)]
            if rows:
                yield [str(row[0]) for row in rows], self._unpack([row[3] for row in rows])

    def transaction(self) -> AbstractContextManager[None]:
        check_writable(read_only=self._read_only, place=self._place)
        return self._opened.within()

    def sql(self) -> Sql | None:
        return self._opened

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def _bound(self) -> Identity:
        if self._identity is None:
            raise InputError(f"{self._place} isn't bound to an identity yet. Call bind() first.")
        return self._identity

    @property
    def _opened(self) -> Connection:
        if self._database is None:
            raise InputError(f"{self._place} is closed, or holds nothing yet. Call bind() first.")
        return self._database

    def journal_path(self) -> Path | None:
        return None


def marks(values: Sequence[Any]) -> str:
    """Give a ``?`` for each value."""
    return ", ".join("?" * len(values))


def upsert(table: str, columns: str = COLUMNS) -> str:
    """Write the statement that puts a row of these columns and a vector."""
    names = f"{columns}, vector".split(", ")
    new = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks(names)}) "
        f"ON CONFLICT (id) DO UPDATE SET {new}"
    )


def as_row(entry: Entry) -> tuple[Any, ...]:
    """Give the values of `COLUMNS`."""
    metadata = json.dumps(dict(entry.metadata), ensure_ascii=False)
    return (entry.id, entry.key, entry.chunk, entry.start, entry.end, entry.text, metadata)


def as_entry(row: tuple[Any, ...]) -> Entry:
    """Make an entry of the values of `COLUMNS`."""
    name, key, chunk, start, end, text, metadata = row
    return Entry(
        id=name,
        key=key,
        chunk=chunk,
        start=start,
        end=end,
        text=text,
        metadata=json.loads(metadata),
    )


def _agrees(key: str, metadata: str, where: Mapping[str, Scalar]) -> bool:
    bare = Entry(id="", key=key, chunk=0, start=0, end=0, text="", metadata=json.loads(metadata))
    return matches(bare, where)
