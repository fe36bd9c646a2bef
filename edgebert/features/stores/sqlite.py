"""SQLite: the whole store is one file, and its journal stands in it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgebert.errors import InputError, StoreError
from edgebert.features.entries import Entry, Identity, Scalar, Vectors
from edgebert.features.stores.checks import FORMS, width
from edgebert.features.stores.connection import Connection
from edgebert.features.stores.table import TableStore, as_row, upsert
from edgebert.types import FloatArray

logger = logging.getLogger(__name__)

_HEADER = b"SQLite format 3\0"
_WAIT_S = 30  # for another process that writes
_MORE = 16  # candidates beyond k: sqlite-vec rounds otherwise than an exact search
_TABLES = (
    "CREATE TABLE IF NOT EXISTS edgebert (identity TEXT NOT NULL)",
    # The vector stands first: a row that has more than a page is read up to there.
    'CREATE TABLE IF NOT EXISTS entries (id TEXT PRIMARY KEY, vector BLOB NOT NULL, "key" TEXT '
    'NOT NULL, chunk INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, '
    "metadata TEXT NOT NULL, text TEXT NOT NULL)",
)
_DISTANCES = {
    "float32": "coalesce(vec_distance_cosine(vector, ?), 1)",  # NULL beside a vector of zeros
    "binary": "vec_distance_hamming(vec_bit(vector), vec_bit(?))",
}


class SqliteStore(TableStore):
    """Keeps vectors as blobs. Searches with sqlite-vec where it loads, else by itself.

    What a write returns from outlives a power cut: each transaction is synchronized to the disk.
    """

    kind: ClassVar[str] = "sqlite"
    install: ClassVar[str] = "pip install 'edgebert[features]'"

    def __init__(self, database: _Connection | None, path: Path, *, read_only: bool) -> None:
        self._path = path
        super().__init__(database, place=f"The store {path}", read_only=read_only)

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> SqliteStore:
        """See `Store.open`; ``location`` is the path of a file."""
        path = Path(location).absolute()
        if not path.exists():
            if read_only:
                raise InputError(f"There is no store {path}. Extract into it first.")
            return cls(None, path, read_only=False)
        other = f"{path} is no vector store of edgebert but something else. Name another place."
        try:
            with path.open("rb") as stream:
                header = stream.read(len(_HEADER))
        except OSError as error:
            raise InputError(other) from error
        if header not in (b"", _HEADER):
            raise InputError(other)
        database = _Connection(path, read_only=read_only)
        try:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if tables and not {("edgebert",), ("entries",)} <= set(tables):
                raise InputError(other)
            if not read_only:
                database.make_durable()
            return cls(database, path, read_only=read_only)
        except BaseException:
            database.close()
            raise

    def _connect_new(self) -> _Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"The folder of {self._path} can't be made: {error}.") from error
        database = _Connection(self._path, read_only=False)
        database.make_durable()
        return database

    def _read_identity(self) -> Identity | None:
        tables = self._opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'edgebert'")
        rows = self._opened.execute("SELECT identity FROM edgebert") if tables else []
        return Identity.from_json(rows[0][0]) if rows else None

    def _keep_identity(self, identity: Identity) -> None:
        for statement in _TABLES:
            self._opened.execute(statement)
        self._opened.execute(
            "INSERT INTO edgebert SELECT ? WHERE NOT EXISTS (SELECT 1 FROM edgebert)",
            [identity.to_json()],
        )

    def _put(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        rows = [
            (*as_row(entry), vector.tobytes())
            for entry, vector in zip(entries, vectors, strict=True)
        ]
        self._opened.execute_many(upsert("entries"), rows)

    def _unpack(self, cells: Sequence[Any]) -> Vectors:
        identity = self._bound
        found = np.frombuffer(b"".join(cells), FORMS[identity.dtype])
        return found.reshape(len(cells), width(identity))

    def _blocks(self, where: Mapping[str, Scalar]) -> Iterator[list[tuple[Any, ...]]]:
        size = self._block_rows()
        facts = '"key", metadata' if where else "NULL, NULL"
        condition, values = _condition(where)
        rows: list[tuple[Any, ...]] = [(0,)]
        while rows:
            rows = self._opened.execute(
                f"SELECT id, {facts}, vector, rowid FROM entries "
                f"WHERE rowid > ? AND {condition} ORDER BY rowid LIMIT {size}",
                [rows[-1][-1], *values],
            )
            yield rows

    def _indexed(
        self, vector: FloatArray, k: int, where: Mapping[str, Scalar], *, exact: bool
    ) -> list[str] | None:
        dtype = self._bound.dtype
        if exact or dtype not in _DISTANCES or not self._has_vec:
            return None
        query = np.packbits(vector > 0) if dtype == "binary" else vector
        condition, values = _condition(where)
        rows = self._opened.execute(
            f"SELECT id FROM entries WHERE {condition} ORDER BY {_DISTANCES[dtype]}, id LIMIT ?",
            [*values, query.tobytes(), k + _MORE],
        )
        return [row[0] for row in rows]

    @cached_property
    def _has_vec(self) -> bool:
        assert isinstance(self._opened, _Connection)
        return self._opened.load_vec()


def _condition(where: Mapping[str, Scalar]) -> tuple[str, list[Any]]:
    """Write what a row of these metadata fulfils; some others may, too."""
    terms, values = ["1"], list[Any]()
    member = "EXISTS (SELECT 1 FROM json_each(metadata) AS m WHERE m.key = ? AND "
    for name, value in where.items():
        if name == "key":
            terms.append('"key" = ?')
            values.append(str(value))
        elif isinstance(value, bool):
            terms.append(f"{member} m.type = ?)")
            values += [name, "true" if value else "false"]
        elif isinstance(value, str):
            terms.append(f"{member} m.type = 'text' AND m.atom = ?)")
            values += [name, value]
        elif value is None:
            terms.append(f"NOT {member} m.type <> 'null')")
            values.append(name)
        elif abs(value) < 2**63:  # SQLite reads a float's digits almost as Python does
            terms.append(f"{member} m.type IN ('integer', 'real') AND abs(m.atom - ?) <= ?)")
            values += [name, float(value), abs(value) * 1e-9]
    return " AND ".join(terms), values


class _Connection(Connection):
    """A connection by `apsw`, which can load extensions, else by Python's own module."""

    begin: ClassVar[str] = "BEGIN IMMEDIATE"  # waits for its turn here, not in the middle

    def __init__(self, path: Path, *, read_only: bool) -> None:
        uri = f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}"
        self._open: Any = None
        self._log = False
        try:
            import apsw
        except ModuleNotFoundError:
            super().__init__(f"The store {path}", sqlite3.Error)
            self._open = self.call(
                sqlite3.connect,
                uri,
                uri=True,
                timeout=_WAIT_S,
                isolation_level=None,  # transactions begin when we say so
                check_same_thread=False,
            )
        else:
            super().__init__(f"The store {path}", apsw.Error)
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
            self._open = self.call(apsw.Connection, uri, flags=flags)
            self._open.set_busy_timeout(_WAIT_S * 1000)

    def make_durable(self) -> None:
        """Synchronize each transaction to the disk before it returns.

        The log stands beside the file as long as someone writes; then it's one file again, which
        can be copied and be read where nothing can be written.
        """
        self.execute("PRAGMA journal_mode = WAL")  # readers and a writer don't wait for each other
        self.execute("PRAGMA synchronous = FULL")
        self._log = True

    def _run(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return list(self._open.execute(statement, tuple(values)))

    def _run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._open.executemany(statement, rows)

    def load_vec(self) -> bool:
        """Load sqlite-vec; say whether it could be."""
        try:
            import sqlite_vec  # type: ignore[import-untyped]

            self._open.enable_load_extension(True)
            self._open.load_extension(sqlite_vec.loadable_path())
            self._open.enable_load_extension(False)
        except (ModuleNotFoundError, AttributeError, self._failure) as error:
            logger.debug("searching without sqlite-vec: %s", error)
            return False
        return True

    def close(self) -> None:
        if self._log:
            self._log = False
            with suppress(StoreError):  # unless others have it open
                self.execute("PRAGMA busy_timeout = 0")
                self.execute("PRAGMA journal_mode = DELETE")
        self.call(self._open.close)
