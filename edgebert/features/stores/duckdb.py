"""DuckDB: the whole store is one file of columns, for those who ask it more than a search does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgebert.errors import InputError, PackageMissingError, StoreError
from edgebert.features.entries import Entry, Identity, Scalar, Vectors
from edgebert.features.stores.checks import FORMS, slices, width
from edgebert.features.stores.connection import Connection
from edgebert.features.stores.table import COLUMNS, TableStore, as_row, marks
from edgebert.types import FloatArray

_MAGIC = b"DUCK"  # behind a checksum of 8 bytes
_MORE = 16  # candidates beyond k: DuckDB rounds otherwise than an exact search
_VALUES = re.compile(r"VALUES (\(\?(?:, \?)*\))")
_ROWS_AT_ONCE = 100
_CELLS = {"float32": "FLOAT", "float16": "FLOAT", "int8": "TINYINT", "binary": "UTINYINT"}


class DuckStore(TableStore):
    """Keeps vectors as arrays of a fixed size, ``float16`` as ``FLOAT``.

    One process at a time may open it to write, and none to read meanwhile. DuckDB fills up to 80 %
    of the memory with what it read; where that's too much, take another store.
    """

    kind: ClassVar[str] = "duckdb"
    install: ClassVar[str] = "pip install 'edgebert[duckdb]'"
    ids_at_once: ClassVar[int] = 20  # of more, DuckDB reads the whole column, not its index

    def __init__(self, database: _Connection | None, path: Path, *, read_only: bool) -> None:
        self._path = path
        super().__init__(database, place=f"The store {path}", read_only=read_only)

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> DuckStore:
        """See `Store.open`; ``location`` is the path of a file."""
        _packages()
        path = Path(location).absolute()
        if not path.exists():
            if read_only:
                raise InputError(f"There is no store {path}. Extract into it first.")
            return cls(None, path, read_only=False)
        other = f"{path} is no vector store of edgebert but something else. Name another place."
        try:
            with path.open("rb") as stream:
                header = stream.read(12)
        except OSError as error:
            raise InputError(other) from error
        if header[8:] != _MAGIC:
            raise InputError(other)
        database = _Connection(path, read_only=read_only)
        try:
            tables = database.execute("SELECT table_name FROM duckdb_tables()")
            if tables and not {("edgebert",), ("entries",)} <= set(tables):
                raise InputError(other)
            return cls(database, path, read_only=read_only)
        except BaseException:
            database.close()
            raise

    def _connect_new(self) -> _Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"The folder of {self._path} can't be made: {error}.") from error
        return _Connection(self._path, read_only=False)

    def _read_identity(self) -> Identity | None:
        tables = self._opened.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'edgebert'")
        rows = self._opened.execute("SELECT identity FROM edgebert") if tables else []
        return Identity.from_json(rows[0][0]) if rows else None

    def _keep_identity(self, identity: Identity) -> None:
        cells = f"{_CELLS[identity.dtype]}[{width(identity)}]"
        self._opened.execute("CREATE TABLE IF NOT EXISTS edgebert (identity TEXT NOT NULL)")
        self._opened.execute(
            'CREATE TABLE IF NOT EXISTS entries (id TEXT PRIMARY KEY, "key" TEXT NOT NULL, '
            'chunk BIGINT NOT NULL, start BIGINT NOT NULL, "end" BIGINT NOT NULL, '
            f"text TEXT NOT NULL, metadata TEXT NOT NULL, vector {cells} NOT NULL)"
        )
        self._opened.execute(
            "INSERT INTO edgebert SELECT ? WHERE NOT EXISTS (SELECT 1 FROM edgebert)",
            [identity.to_json()],
        )

    def _put(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """Insert rows where those of the same id were deleted: an upsert turns -0.0 into 0.0."""
        for some in slices([entry.id for entry in entries], self.ids_at_once):
            self._opened.execute(f"DELETE FROM entries WHERE id IN ({marks(some)})", some)
        assert isinstance(self._opened, _Connection)
        self._opened.append([as_row(entry) for entry in entries], vectors)

    def _select(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if "vector" not in statement:
            return self._opened.execute(statement, values)
        assert isinstance(self._opened, _Connection)
        return self._opened.columns(statement, values)

    def _unpack(self, cells: Sequence[Any]) -> Vectors:
        return np.stack(cells).astype(FORMS[self._bound.dtype])

    def _blocks(self, where: Mapping[str, Scalar]) -> Iterator[list[tuple[Any, ...]]]:
        size = self._block_rows()
        facts = '"key", metadata' if where else "NULL, NULL"
        last = self._opened.execute("SELECT max(rowid) FROM entries")[0][0]
        for first in range(0, -1 if last is None else last + 1, size):
            yield self._select(
                f"SELECT id, {facts}, vector FROM entries WHERE rowid BETWEEN ? AND ?",
                [first, first + size - 1],
            )

    def _indexed(
        self, vector: FloatArray, k: int, where: Mapping[str, Scalar], *, exact: bool
    ) -> list[str] | None:
        if exact or where or not self._bound.dtype.startswith("float"):
            return None
        cosine = f"array_cosine_similarity(vector, ?::FLOAT[{self._bound.dim}])"
        rows = self._opened.execute(
            f"SELECT id FROM entries ORDER BY CASE WHEN isnan({cosine}) THEN 0 ELSE {cosine} END "
            "DESC, id LIMIT ?",
            [vector.tolist(), vector.tolist(), k + _MORE],
        )
        return [row[0] for row in rows]


def _packages() -> Any:
    try:
        import duckdb
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError as error:
        raise PackageMissingError(
            f"A duckdb store needs the package {error.name!r}, which is not installed. "
            f"Install it with: {DuckStore.install}"
        ) from error
    return duckdb


class _Connection(Connection):
    def __init__(self, path: Path, *, read_only: bool) -> None:
        package = _packages()
        super().__init__(f"The store {path}", package.Error)
        self._open = self.call(package.connect, str(path), read_only=read_only)

    def _run(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return list(self._open.execute(statement, list(values)).fetchall())

    def _run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        one = _VALUES.search(statement)
        if one is None or len({row[0] for row in rows}) < len(rows):
            self._open.executemany(statement, [list(row) for row in rows])
            return
        for some in slices(rows, _ROWS_AT_ONCE):  # DuckDB plans each row of an executemany anew
            many = f"VALUES {', '.join([one[1]] * len(some))}"
            self._open.execute(
                statement[: one.start()] + many + statement[one.end() :],
                [value for row in some for value in row],
            )

    def columns(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Give rows as `execute` does, but vectors as arrays."""
        found = self.call(lambda: self._open.execute(statement, list(values)).fetchnumpy())
        return list(zip(*found.values(), strict=True))

    def append(self, rows: Sequence[tuple[Any, ...]], vectors: Vectors) -> None:
        """Insert rows of `COLUMNS` with their vectors."""
        import pyarrow as pa

        cells = vectors.astype(np.float32) if vectors.dtype == np.float16 else vectors
        arrays = [pa.array(column) for column in zip(*rows, strict=True)]
        arrays.append(pa.FixedSizeListArray.from_arrays(cells.ravel(), vectors.shape[1]))
        names = [f"c{number}" for number in range(len(arrays))]
        self.call(self._open.register, "incoming", pa.table(arrays, names))
        try:
            self.execute(f"INSERT INTO entries ({COLUMNS}, vector) SELECT * FROM incoming")
        finally:
            with suppress(StoreError):  # after an error in the same transaction
                self.call(self._open.unregister, "incoming")

    def close(self) -> None:
        self._open.close()
