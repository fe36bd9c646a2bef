"""LanceDB: one table in a folder, a version of it a write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from warnings import catch_warnings, filterwarnings

import numpy as np

from edgebert.errors import InputError, StoreError
from edgebert.features.entries import Entry, Hit, Identity, Scalar, Vectors
from edgebert.features.stores.base import Store
from edgebert.features.stores.checks import (
    check_query,
    check_writable,
    check_write,
    in_order,
    no_vectors,
    slices,
)
from edgebert.features.stores.exact import nearest
from edgebert.features.stores.folders import JOURNAL, require_room
from edgebert.features.stores.lance_engine import connect, give_back, lancedb_package, reason_of
from edgebert.features.stores.lance_rows import (
    COLUMNS,
    entries_in,
    filter_of,
    identity_in,
    rows_of,
    schema_of,
    vectors_in,
)
from edgebert.files import sync_directory
from edgebert.types import FloatArray

_TABLE = "entries"
_BLOCK = 4096  # rows that are read at once: 6 MB of float32 [384]
_IDS = 512  # ids that one query asks for
_PAGE = 1 << 16  # ids that are put in order at once
_TIDY_WRITES = 128  # a write makes a file and a version; so many are made one
_KEEP = timedelta(seconds=10)  # how long a reader may go on with the version it has
_CANDIDATES = 10  # times k: how many the index gives, to be compared by their whole vectors


class LanceStore(Store):
    """Entries in the table ``entries`` of a LanceDB folder, readable by LanceDB itself.

    A write is one version: after a kill, the folder is that of the last one. Searches compare with
    every vector until `build_index` has been called.
    """

    kind = "lancedb"
    install = "pip install 'edgebert[lancedb]'"

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder, self._read_only = folder, read_only
        self._place = f"lancedb:{folder}"
        self._table: Any = None  # a lancedb.table.Table: the package has no types
        self._identity: Identity | None = None
        self._loose = 0  # writes since the last tidying
        self._synced: set[Path] = set()

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> LanceStore:
        """See `Store.open`; ``location`` is a folder."""
        lancedb_package(cls.install)
        store = cls(Path(location), read_only=read_only)
        store._look()
        if store._table is None:
            own = (store._path().name,)
            require_room(store._folder, kind=cls.kind, own=own, read_only=read_only)
        return store

    def _path(self) -> Path:
        return self._folder / f"{_TABLE}.lance"

    def _versions(self) -> int:
        return len(list(self._path().glob("_versions/*.manifest")))

    def _look(self) -> None:
        """Open the table if it's there; what a killed first `bind` left is no table."""
        if not self._versions():
            return
        with self._failing("can't be opened"):
            table = connect(self._folder).open_table(_TABLE)
        self._identity = identity_in(table.schema)
        if self._identity is None:
            raise InputError(f"{self._place} is a LanceDB folder, but no store of edgebert's.")
        self._table = table

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn the engine's errors, which are of many types, into ours."""
        try:
            yield
        except (RuntimeError, OSError, ValueError) as error:
            raise StoreError(f"{self._place} {what}: {reason_of(error)}.") from error

    @property
    def identity(self) -> Identity | None:
        """See `Store.identity`; it's kept in the metadata of the table's schema."""
        return self._identity

    def bind(self, identity: Identity) -> None:
        """See `Store.bind`."""
        if self._identity is None:
            self._look()
        if self._identity is not None:
            self._identity.require(identity, place=self._place)
            if not self._read_only:  # one that was killed may have left what close() would tidy
                self._loose = max(self._loose, self._versions() - 1)
                for left in self._path().rglob(".tmp*"):  # LanceDB's, of a file half written
                    left.unlink(missing_ok=True)
            return
        check_writable(read_only=self._read_only, place=self._place)
        with self._failing("can't be made"):
            self._table = connect(self._folder).create_table(_TABLE, schema=schema_of(identity))
        self._identity = identity
        self._sync()

    def __len__(self) -> int:
        if self._table is None:
            return 0
        with self._failing("can't be read"):
            return int(self._table.count_rows())

    def ids(self) -> Iterator[str]:
        """See `Store.ids`; the table is read once a page of 65,536."""
        after = ""
        while self._table is not None:
            page: list[str] = []
            for batch in self._read(["id"]):
                page += (one for one in batch.column("id").to_pylist() if one > after)
                if len(page) > 2 * _PAGE:
                    page = sorted(page)[:_PAGE]
            page = sorted(page)[:_PAGE]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]

    def _read(self, columns: list[str], where: Any = None) -> Iterator[Any]:
        """Give record batches of the rows that fit, in bounded memory."""
        query = self._table.search().select(columns)
        with self._failing("can't be read"):
            yield from (query if where is None else query.where(where)).to_batches(_BLOCK)

    def _read_ids(self, columns: list[str], ids: Sequence[str]) -> Iterator[Any]:
        from lancedb.expr import col

        if self._table is not None:
            for some in slices(ids, _IDS):
                yield from self._read(columns, col("id").isin(list(some)))

    def get(self, ids: Sequence[str]) -> Vectors:
        """See `Store.get`; an Arrow column of the vectors' own type keeps their bits."""
        found = {
            name: vector
            for batch in self._read_ids(["id", "vector"], ids)
            for name, vector in zip(*self._block(batch), strict=True)
        }
        rows = in_order(found, ids, place=self._place)
        return np.stack(rows) if rows else no_vectors(self._identity)

    def _block(self, batch: Any) -> tuple[list[str], Vectors]:
        assert self._identity is not None
        return batch.column("id").to_pylist(), vectors_in(batch, self._identity)

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """See `Store.entries`."""
        batches = self._read_ids(COLUMNS, ids)
        found = {entry.id: entry for batch in batches for entry in entries_in(batch)}
        return in_order(found, ids, place=self._place)

    def write(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """See `Store.write`: one version of the table."""
        check_writable(read_only=self._read_only, place=self._place)
        identity = check_write(self._identity, entries, vectors, place=self._place)
        if not entries:
            return
        rows = rows_of(entries, vectors, identity)
        with self._failing("can't be written"):
            merge = self._table.merge_insert("id")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)
        self._changed()

    def delete(self, ids: Sequence[str]) -> None:
        """See `Store.delete`."""
        from lancedb.expr import col

        check_writable(read_only=self._read_only, place=self._place)
        for some in slices(ids if self._table is not None else [], _IDS):
            with self._failing("can't be written"):
                self._table.delete(col("id").isin(list(some)))
            self._changed()

    def _changed(self) -> None:
        self._sync()
        self._loose += 1
        if self._loose >= _TIDY_WRITES:
            self._tidy(_KEEP)
        else:
            give_back()

    def _sync(self) -> None:
        """Make new files outlast a power cut, which LanceDB leaves to the system."""
        files = {path for path in self._path().rglob("*") if path.is_file()}
        new = files - self._synced
        for path in new:
            with path.open("rb+") as stream:
                os.fsync(stream.fileno())
        for folder in {path.parent for path in new}:
            sync_directory(folder)
        self._synced = files

    def _tidy(self, keep: timedelta) -> None:
        """Make many small files one, bring an index up to date, drop old versions."""
        with self._failing("can't be tidied"), catch_warnings():
            filterwarnings("ignore", "optimize.cleanup_older_than=0", UserWarning)
            self._table.optimize(cleanup_older_than=keep)
        give_back()
        self._loose = 0
        self._sync()

    def build_index(self) -> None:
        """Let searches that aren't ``exact`` look at a part of the vectors only.

        Vectors are grouped and, as floats, compressed (IVF, PQ); candidates are compared by their
        whole vectors. Rows that come later join it as the table is tidied, and are found before.

        Raises:
            InputError: Vectors are ``int8``, whose scale by dimension LanceDB doesn't know.
            StoreError: It failed.
        """
        from lancedb.index import IvfFlat, IvfPq

        check_writable(read_only=self._read_only, place=self._place)
        if self._identity is None or self._identity.dtype == "int8":
            raise InputError(
                f"{self._place} holds no vectors that can be indexed; int8 is searched exactly, "
                "float32, float16 and binary can be indexed."
            )
        binary = self._identity.dtype == "binary"
        config = IvfFlat(distance_type="hamming") if binary else IvfPq(distance_type="cosine")
        with self._failing("can't be indexed"):
            self._table.create_index("vector", config=config)
        self._sync()

    def search(
        self,
        vector: FloatArray,
        k: int,
        *,
        where: Mapping[str, Scalar] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """See `Store.search`."""
        if self._identity is None or self._table is None:
            return []
        check_query(self._identity, vector, k)
        asked = filter_of(where)
        indexed = not exact and bool(vector.any()) and self._has_index()
        batches = self._candidates(vector, k, asked) if indexed else None
        blocks: Iterable[Any] = batches or self._read(["id", "vector"], asked)
        best = nearest((self._block(batch) for batch in blocks), vector, k, self._identity)
        entries = self.entries([name for name, _ in best])
        return [Hit(entry=one, score=own[1]) for one, own in zip(entries, best, strict=True)]

    def _has_index(self) -> bool:
        with self._failing("can't be read"):
            return any("vector" in index.columns for index in self._table.list_indices())

    def _candidates(self, vector: FloatArray, k: int, where: str | None) -> list[Any]:
        assert self._identity is not None
        query = np.packbits(vector > 0) if self._identity.dtype == "binary" else vector
        search = self._table.search(query, vector_column_name="vector").limit(_CANDIDATES * k)
        if where is not None:
            search = search.where(where, prefilter=True)
        with self._failing("can't be searched"):
            found = search.select(["id", "vector", "_distance"]).to_arrow()
            return list(found.select(["id", "vector"]).to_batches())

    def journal_path(self) -> Path | None:
        """See `Store.journal_path`: in the store's folder."""
        return self._folder / JOURNAL

    def close(self) -> None:
        """See `Store.close`."""
        if self._table is not None and self._loose:
            self._tidy(timedelta(0))  # who reads a version that old reads the last one next
        self._table = None
