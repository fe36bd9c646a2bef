"""PostgreSQL with pgvector: a table of a server's, for many machines at once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np

from edgebert.errors import InputError, PackageMissingError
from edgebert.features.entries import Entry, Identity, Scalar, Vectors
from edgebert.features.stores.checks import FORMS, width
from edgebert.features.stores.connection import Connection
from edgebert.features.stores.table import COLUMNS, TableStore, as_entry, as_row, upsert
from edgebert.types import FloatArray

if TYPE_CHECKING:
    from edgebert.features.stores.postgresql_connection import PostgresConnection

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")  # names end at 63 bytes, ours are longer
_EXTENSION = "vector"
_MORE = 64  # candidates beyond k
_ROUNDING = 1e-4  # of the server's cosines, which it sums in float32
_TYPES = {"float32": "vector", "float16": "halfvec", "int8": "bytea", "binary": "bit"}
_OPERATORS = {
    "float32": ("<=>", "vector_cosine_ops"),
    "float16": ("<=>", "halfvec_cosine_ops"),
    "binary": ("<~>", "bit_hamming_ops"),
}


class PostgresStore(TableStore):
    """Keeps ``float32`` as ``vector``, ``float16`` as ``halfvec``, ``binary`` as ``bit``.

    ``int8`` is ``bytea``, for pgvector has no such type: the server can't compare it, so a search
    reads the whole table. The URL may say ``table=NAME`` (``edgebert``) and ``index=hnsw``. What
    else the store needs, its journal too, stands in the schema ``NAME_edgebert``.
    """

    kind: ClassVar[str] = "postgresql"
    install: ClassVar[str] = "pip install 'edgebert[postgresql]'"
    snapshot: ClassVar[str] = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    columns: ClassVar[str] = f"{COLUMNS}::text, raw"

    def __init__(
        self, database: PostgresConnection, name: str, *, place: str, read_only: bool, index: bool
    ) -> None:
        self._server = database
        self._name = name
        self._wants_index = index
        self.table = f'"{database.schema}"."{name}"'
        super().__init__(database, place=place, read_only=read_only)
        if self._identity is not None:
            database.carry(_TYPES[self._identity.dtype])
            if index and not read_only:
                self._make_index(self._identity)
        self._has_index = self._finds(f'"{database.schema}"."{name}_hnsw"')

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> PostgresStore:
        """See `Store.open`; ``location`` is the URL of a database, with ``?table=NAME``."""
        try:
            from edgebert.features.stores.postgresql_connection import PostgresConnection
        except ModuleNotFoundError as error:
            raise PackageMissingError(
                f"A postgresql store needs the package {error.name!r}, which is not installed. "
                f"Install it with: {cls.install}"
            ) from error
        url, name, index = _parts(location)
        place = f"The store {name!r} at {urlsplit(url).hostname or 'this server'}"
        own = f"{name}_edgebert"
        database = PostgresConnection(url, place=place, own=own, read_only=read_only)
        try:
            store = cls(database, name, place=place, read_only=read_only, index=index)
            if store.identity is None and store._finds(store.table):
                raise InputError(
                    f"The table {store.table} is no vector store of edgebert but something else. "
                    "Name another one: ?table=NAME."
                )
            if store.identity is None and read_only:
                raise InputError(f"{place} isn't there. Extract into it first.")
            return store
        except BaseException:
            database.close()
            raise

    def _connect_new(self) -> Connection:
        return self._server

    def _finds(self, name: str) -> bool:
        return bool(self._opened.execute("SELECT to_regclass(?) IS NOT NULL", [name])[0][0])

    def _read_identity(self) -> Identity | None:
        kept = f'"{self._name}_edgebert".identity'
        rows = self._opened.execute(f"SELECT identity FROM {kept}") if self._finds(kept) else []
        return Identity.from_json(rows[0][0]) if rows else None

    def _keep_identity(self, identity: Identity) -> None:
        run, kind = self._opened.execute, _TYPES[identity.dtype]
        run("SELECT pg_advisory_xact_lock(hashtext(?))", [self.table])  # one at a time
        if kind != "bytea":
            if not run("SELECT 1 FROM pg_available_extensions WHERE name = ?", [_EXTENSION]):
                raise InputError(
                    f"{self._place} needs the extension {_EXTENSION!r} (pgvector), which its "
                    "server doesn't have. Install it there; int8 vectors do without."
                )
            run(f"CREATE EXTENSION IF NOT EXISTS {_EXTENSION}")
        run(f'CREATE SCHEMA IF NOT EXISTS "{self._name}_edgebert"')
        kept = f'"{self._name}_edgebert".identity'
        run(f"CREATE TABLE IF NOT EXISTS {kept} (identity text NOT NULL)")
        size = {"bytea": "", "bit": f"({8 * width(identity)})"}.get(kind, f"({identity.dim})")
        run(
            f'CREATE TABLE IF NOT EXISTS {self.table} (id text COLLATE "C" PRIMARY KEY, '
            '"key" text NOT NULL, chunk bigint NOT NULL, start bigint NOT NULL, '
            '"end" bigint NOT NULL, text text NOT NULL, metadata json NOT NULL, raw bytea, '
            f"vector {kind}{size} NOT NULL)"
        )
        run(
            f"INSERT INTO {kept} SELECT ?::text WHERE NOT EXISTS (SELECT 1 FROM {kept})",
            [identity.to_json()],
        )
        self._server.carry(kind)
        if self._wants_index:
            self._make_index(identity)
            self._has_index = True

    def _make_index(self, identity: Identity) -> None:
        if identity.dtype not in _OPERATORS:
            raise InputError(f"There is no index for {identity.dtype}. Leave index=hnsw out.")
        self._opened.execute(
            f'CREATE INDEX IF NOT EXISTS "{self._name}_hnsw" ON {self.table} '
            f"USING hnsw (vector {_OPERATORS[identity.dtype][1]})"
        )

    def _put(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        rows = [
            (*_row(entry), cell) for entry, cell in zip(entries, self._cells(vectors), strict=True)
        ]
        rows.sort()  # by id: two writers that lock the same rows don't wait for each other
        self._opened.execute_many(upsert(self.table, f"{COLUMNS}, raw"), rows)

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        return as_entry(row[:-1] if row[-1] is None else tuple(json.loads(row[-1])))

    def _cells(self, vectors: Vectors) -> list[bytes]:
        """Write vectors in the binary form of their column's type."""
        from edgebert.features.stores.postgresql_connection import Cell

        dtype, dim = self._bound.dtype, self._bound.dim
        if dtype == "int8":
            return [vector.tobytes() for vector in vectors]
        if dtype == "binary":
            head = (8 * vectors.shape[1]).to_bytes(4, "big")
        else:
            head = dim.to_bytes(2, "big") + bytes(2)
            vectors = vectors.astype(vectors.dtype.newbyteorder(">"))
        return [Cell(head + vector.tobytes()) for vector in vectors]

    def _unpack(self, cells: Sequence[Any]) -> Vectors:
        form = np.dtype(FORMS[self._bound.dtype])
        head = 0 if self._bound.dtype == "int8" else 4
        data = b"".join(cell[head:] for cell in cells)
        found = np.frombuffer(data, form.newbyteorder(">")).astype(form)
        return found.reshape(len(cells), width(self._bound))

    def _blocks(self, where: Mapping[str, Scalar]) -> Iterator[list[tuple[Any, ...]]]:
        condition, values = _condition(where)
        run = self._opened.execute
        run(
            f'DECLARE blocks CURSOR FOR SELECT id, "key", metadata::text, vector '
            f"FROM {self.table} WHERE {condition}",
            values,
        )
        while rows := run(f"FETCH {self._block_rows()} FROM blocks"):
            yield rows
        run("CLOSE blocks")

    def _indexed(
        self, vector: FloatArray, k: int, where: Mapping[str, Scalar], *, exact: bool
    ) -> list[str] | None:
        dtype = self._bound.dtype
        if dtype not in _OPERATORS:
            return None
        query = np.packbits(vector > 0) if dtype == "binary" else vector.astype(FORMS[dtype])
        if not np.isfinite(query).all():  # too large for float16
            return None
        distance = f"vector {_OPERATORS[dtype][0]} ?"
        cell = self._cells(query[None])[0]
        condition, values = _condition(where)
        count = k + _MORE
        if self._has_index and not exact:
            self._opened.execute(f"SET LOCAL hnsw.ef_search = {min(1000, max(40, count))}")
            rows = self._opened.execute(
                f"SELECT id FROM {self.table} WHERE {condition} ORDER BY {distance} LIMIT {count}",
                [*values, cell],
            )
            if len(rows) >= k:  # else the filter left too few of what the index gave
                return [row[0] for row in rows]
        rows = self._opened.execute(  # NaN beside a vector of zeros
            f"SELECT id, CASE WHEN away = 'NaN' THEN 1 ELSE away END AS away FROM "
            f"(SELECT id, {distance} AS away FROM {self.table} WHERE {condition}) AS every "
            f"ORDER BY 2, 1 LIMIT {count}",
            [cell, *values],
        )
        if len(rows) == count and dtype != "binary" and rows[-1][1] - rows[k - 1][1] < _ROUNDING:
            return None  # so many are almost as near that rounding may have chosen
        return [row[0] for row in rows]


def _parts(location: str) -> tuple[str, str, bool]:
    """Take what is ours out of a URL: the table's name, and whether it has an index."""
    parts = urlsplit(location)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    name, index = options.pop("table", "edgebert"), options.pop("index", "")
    if not _TABLE.fullmatch(name):
        raise InputError(
            f"{name!r:.60} names no table; allowed: 1 to 40 of A-Z, a-z, 0-9 and _, no digit first."
        )
    if index not in ("", "hnsw"):
        raise InputError(f"index={index!r:.60} isn't allowed; allowed: index=hnsw, or none.")
    return parts._replace(query=urlencode(options)).geturl(), name, bool(index)


def _row(entry: Entry) -> tuple[Any, ...]:
    """Give the values of `COLUMNS` and of ``raw``, which has what PostgreSQL's types can't hold."""
    row = as_row(entry)
    odd = [value for value in entry.metadata.values() if _is_odd(value)]
    names = [name for name in (*entry.metadata, entry.key, entry.text) if _is_odd(name)]
    if not odd and not names:
        return (*row, None)
    shown = {_shown(name): _shown(value) for name, value in entry.metadata.items()}
    plain = replace(entry, key=_shown(entry.key), text=_shown(entry.text), metadata=shown)
    return (*as_row(plain), json.dumps(row).encode())


def _is_odd(value: Scalar) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and "\0" in value


def _shown(value: Any) -> Any:
    if not _is_odd(value):
        return value
    return None if isinstance(value, float) else value.replace("\0", "\N{SYMBOL FOR NULL}")


def _condition(where: Mapping[str, Scalar]) -> tuple[str, list[Any]]:
    """Write what a row of these metadata fulfils; some others may, too."""
    terms, values = ["true"], list[Any]()
    for name, value in where.items():
        if _is_odd(name) or _is_odd(value):
            continue
        if name == "key":
            terms.append('"key" = ?::text')
            values.append(str(value))
        elif value is None:
            terms.append("coalesce(json_typeof(metadata -> ?::text), 'null') = 'null'")
            values.append(name)
        elif isinstance(value, bool | str):
            terms.append("metadata ->> ?::text = ?::text")
            values += [name, value if isinstance(value, str) else str(value).lower()]
        else:
            number = "(metadata ->> ?::text)::numeric = ?::text::numeric"
            terms.append(f"CASE json_typeof(metadata -> ?::text) WHEN 'number' THEN {number} END")
            values += [name, name, repr(value)]
    return " AND ".join(terms), values
