"""A connection to PostgreSQL that comes back after it was lost, and carries vectors as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format

from edgebert.features.stores.connection import Connection

_CONNECT_S = 10
_LOCK = "SELECT pg_try_advisory_lock("  # of a connection; each later one takes it, too


class Cell(bytes):
    """A vector in the binary form of its column's type."""


class _CellDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Cell) -> bytes:
        return bytes(obj)


class _CellLoader(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> bytes:
        return bytes(data)


class PostgresConnection(Connection):
    """Speaks to a server. A transaction that loses its connection fails; the next one has another.

    Args:
        url: As libpq takes it.
        place: What messages call the store.
        own: Schema of what isn't the table of entries; a journal's tables land there, too.
        read_only: Let the server refuse changes.

    Attributes:
        schema: Where the table of entries stands, or will.
    """

    def __init__(self, url: str, *, place: str, own: str, read_only: bool) -> None:
        super().__init__(place, psycopg.Error)
        self._url, self._own, self._read_only = url, own, read_only
        self._type: str | None = None
        self._closed = False
        self._locks: list[tuple[Any, Sequence[Any]]] = []
        self.schema = ""
        self._open = self.call(self._connect)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        wait = conninfo_to_dict(self._url).get("connect_timeout", _CONNECT_S)
        info = make_conninfo(self._url, connect_timeout=wait, client_encoding="utf8")
        opened = psycopg.connect(info, autocommit=True)
        found = opened.execute("SELECT current_schema(), current_setting('search_path')").fetchone()
        assert found is not None
        self.schema = found[0] or "public"
        path = f'"{self._own}", {found[1]}' if found[1] else f'"{self._own}"'
        opened.execute("SELECT set_config('search_path', %s, false)", [path])
        if self._read_only:
            opened.execute("SET default_transaction_read_only = on")
        if self._type is not None:
            _adapt(opened, self._type)
        for statement, values in self._locks:
            lock = opened.execute(statement, values).fetchone()
            if lock is None or not lock[0]:
                opened.close()
                raise psycopg.OperationalError("another run holds the lock that this one lost")
        return opened

    def carry(self, name: str) -> None:
        """Say of which type the vectors are; of ``bytea`` they are bytes as they are."""
        self._type = name
        self.call(_adapt, self._open, name)

    def _run(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._open.closed:
            if self._closed or (self.inside and not statement.startswith("BEGIN")):
                raise psycopg.OperationalError("the connection is closed")
            self._open = self._connect()
        with self._open.cursor(binary=True) as cursor:
            cursor.execute(_marked(statement), values)
            found = cursor.fetchall() if cursor.description else []
        if statement.startswith(_LOCK) and found[0][0]:
            self._locks.append((_marked(statement), values))
        return found

    def _run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._open.cursor() as cursor:
            cursor.executemany(_marked(statement), rows)

    def close(self) -> None:
        self._closed = True
        with suppress(psycopg.Error):
            self._open.close()


def _marked(statement: str) -> Any:
    """Mark values as psycopg does. Its type for statements takes literals alone."""
    return statement.replace("%", "%%").replace("?", "%s")


def _adapt(opened: psycopg.Connection[Any], name: str) -> None:
    if name == "bytea":
        return
    found = opened.execute("SELECT to_regtype(%s)::oid::bigint", [name]).fetchone()
    if found is None or found[0] is None:
        raise psycopg.ProgrammingError(f"no schema of the search path has pgvector's type {name}")
    oid = int(found[0])
    opened.adapters.register_dumper(Cell, type("", (_CellDumper,), {"oid": oid}))
    opened.adapters.register_loader(oid, _CellLoader)
