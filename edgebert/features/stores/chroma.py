"""Chroma: a collection in a folder, by its persistent client."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgebert.errors import InputError, PackageMissingError, StoreError
from edgebert.features.entries import Entry, Hit, Identity, Scalar, Vectors
from edgebert.features.stores.base import Store, full_vectors
from edgebert.features.stores.checks import (
    check_query,
    check_writable,
    check_write,
    in_order,
    slices,
)
from edgebert.features.stores.exact import nearest
from edgebert.features.stores.facts import facts_asked, facts_of
from edgebert.features.stores.folders import JOURNAL, require_room
from edgebert.features.stores.payload import entry_in, payload_of, vectors_in
from edgebert.types import FloatArray

_COLLECTION, _IDENTITY, _FACTS = "entries", "edgebert", "edgebert_facts"
_DATABASE = "chroma.sqlite3"
_ROWS = 1024  # a call: 5,461 are allowed, and fewer take less memory
_MORE = 16  # candidates beyond k, as the index rounds otherwise than an exact search
_PLAIN_NAME = re.compile(r"(?!edgebert)[A-Za-z_][\w.-]*")


class ChromaStore(Store):
    """Entries in the collection ``entries`` of a Chroma folder; the documents are the texts.

    Chroma keeps vectors as float32, and no None among metadata. So each entry's vector as it was
    put, and all that `Entry` has, stand in two metadata of ours (see
    `edgebert.features.stores.payload`), beside those of the entry's that Chroma can keep, for who
    reads the collection with Chroma itself. Telemetry is off. Chroma holds its index in memory;
    ``exact`` reads every entry from the disk.
    """

    kind = "chroma"
    install = "pip install 'edgebert[chroma]'"

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder, self._read_only = folder, read_only
        self._place = f"chroma:{folder}"
        self._client: Any = None  # a chromadb.ClientAPI
        self._collection: Any = None
        self._identity: Identity | None = None

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> ChromaStore:
        """See `Store.open`; ``location`` is a folder."""
        _package()
        store = cls(Path(location), read_only=read_only)
        try:
            store._look()
        except BaseException:
            store.close()
            raise
        return store

    def _look(self) -> None:
        """Open the folder if it's there, and the collection if it's in it."""
        if not (self._folder / _DATABASE).exists():
            require_room(self._folder, kind=self.kind, own=(_DATABASE,), read_only=self._read_only)
            return
        self._connect()
        with self._failing("can't be opened"):
            names = [one.name for one in self._client.list_collections()]
            if _COLLECTION in names:
                found = self._client.get_collection(_COLLECTION, embedding_function=None)
        if _COLLECTION in names:
            text = (found.metadata or {}).get(_IDENTITY)
            if text is None:
                raise InputError(f"{self._place} is Chroma's, but no store of edgebert's.")
            self._collection, self._identity = found, Identity.from_json(text)
        elif names:
            raise InputError(f"{self._place} holds other collections. Give a folder of its own.")
        elif self._read_only:
            raise InputError(f"There is no store at {self._folder}. Extract into it first.")

    def _connect(self) -> None:
        if self._client is not None:
            return
        package = _package()
        with self._failing("can't be opened"):
            settings = package.config.Settings(anonymized_telemetry=False)
            self._client = package.PersistentClient(str(self._folder.absolute()), settings)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn Chroma's errors, which are of many types, into ours."""
        from chromadb.errors import ChromaError

        try:
            yield
        except (ChromaError, RuntimeError, OSError, ValueError) as error:
            raise StoreError(f"{self._place} {what}: {error}") from error

    @property
    def identity(self) -> Identity | None:
        """See `Store.identity`; it's kept in the collection's metadata."""
        return self._identity

    def bind(self, identity: Identity) -> None:
        """See `Store.bind`."""
        if self._identity is None:
            self._look()
        if self._identity is None:
            check_writable(read_only=self._read_only, place=self._place)
            self._connect()
            with self._failing("can't be made"):
                self._client.create_collection(
                    _COLLECTION,
                    metadata={_IDENTITY: identity.to_json()},
                    configuration={"hnsw": {"space": "cosine"}},
                    embedding_function=None,
                )
            self._look()
        assert self._identity is not None
        self._identity.require(identity, place=self._place)

    def __len__(self) -> int:
        if self._collection is None:
            return 0
        with self._failing("can't be read"):
            return int(self._collection.count())

    def _pages(self, include: list[str], where: Any = None) -> Iterator[Any]:
        start = 0
        while self._collection is not None:
            with self._failing("can't be read"):
                page = self._collection.get(where=where, limit=_ROWS, offset=start, include=include)
            if not page["ids"]:
                return
            yield page
            start += len(page["ids"])

    def ids(self) -> Iterator[str]:
        """See `Store.ids`; Chroma sorts by no id, so they're sorted here, 32 bytes each."""
        names = [name.encode() for page in self._pages([]) for name in page["ids"]]
        names.sort()
        return (name.decode() for name in names)

    def _found(self, ids: Sequence[str], include: list[str]) -> Iterator[Any]:
        for some in slices(list(dict.fromkeys(ids)), _ROWS) if self._collection else ():
            with self._failing("can't be read"):
                yield self._collection.get(ids=list(some), include=include)

    def get(self, ids: Sequence[str]) -> Vectors:
        """See `Store.get`."""
        found = {
            name: metadata
            for page in self._found(ids, ["metadatas"])
            for name, metadata in zip(page["ids"], page["metadatas"], strict=True)
        }
        return vectors_in(in_order(found, ids, place=self._place), self._identity)

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """See `Store.entries`."""
        found = {
            name: entry_in(metadata, name=name, text=text)
            for page in self._found(ids, ["metadatas", "documents"])
            for name, metadata, text in zip(
                page["ids"], page["metadatas"], page["documents"], strict=True
            )
        }
        return in_order(found, ids, place=self._place)

    def write(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """See `Store.write`; by calls of 1,024 entries, each of which may be done again."""
        check_writable(read_only=self._read_only, place=self._place)
        identity = check_write(self._identity, entries, vectors, place=self._place)
        old = {
            name: metadata
            for page in self._found([entry.id for entry in entries], ["metadatas"])
            for name, metadata in zip(page["ids"], page["metadatas"], strict=True)
        }
        for start in range(0, len(entries), _ROWS):
            some, part = entries[start : start + _ROWS], vectors[start : start + _ROWS]
            mine = [
                _metadata(entry, vector, old.get(entry.id))
                for entry, vector in zip(some, part, strict=True)
            ]
            with self._failing("can't be written"):
                self._collection.upsert(
                    ids=[entry.id for entry in some],
                    embeddings=full_vectors(part, identity),
                    metadatas=mine,
                    documents=[entry.text for entry in some],
                )

    def delete(self, ids: Sequence[str]) -> None:
        """See `Store.delete`."""
        check_writable(read_only=self._read_only, place=self._place)
        for page in self._found(ids, []):
            if page["ids"]:
                with self._failing("can't be written"):
                    self._collection.delete(ids=page["ids"])

    def search(
        self,
        vector: FloatArray,
        k: int,
        *,
        where: Mapping[str, Scalar] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """See `Store.search`."""
        identity = self._identity
        if identity is None:
            return []
        check_query(identity, vector, k)
        conditions = _filter(where)
        if exact or not vector.any():
            pages = self._pages(["metadatas"], conditions)
        else:
            pages = iter([self._candidates(vector, k, conditions)])
        blocks = ((page["ids"], vectors_in(page["metadatas"], identity)) for page in pages)
        best = nearest(blocks, vector, k, identity)
        entries = self.entries([name for name, _ in best])
        return [Hit(entry=one, score=own[1]) for one, own in zip(entries, best, strict=True)]

    def _candidates(self, vector: FloatArray, k: int, where: Any) -> dict[str, Any]:
        assert self._identity is not None
        query = vector
        if self._identity.dtype == "binary":
            query = (vector > 0) * 2.0 - 1
        with self._failing("can't be searched"):
            count = min(k + _MORE, self._collection.count())
            if count == 0:
                return {"ids": [], "metadatas": []}
            found = self._collection.query(
                query_embeddings=[query.astype("float32")],
                n_results=count,
                where=where,
                include=["metadatas"],
            )
        return {"ids": found["ids"][0], "metadatas": found["metadatas"][0]}

    def journal_path(self) -> Path | None:
        """See `Store.journal_path`: in the store's folder."""
        return self._folder / JOURNAL

    def close(self) -> None:
        """See `Store.close`."""
        if self._client is not None:
            self._client.close()
        self._client = self._collection = None


def _package() -> Any:
    try:
        import chromadb
        import chromadb.config
    except ModuleNotFoundError as error:
        raise PackageMissingError(
            f"Chroma isn't installed. Install it with: {ChromaStore.install}"
        ) from error
    return chromadb


def _metadata(
    entry: Entry, vector: Vectors, old: Mapping[str, Any] | None
) -> dict[str, str | int | float | bool | list[str] | None]:
    """Give what Chroma keeps of an entry; None takes away a name that only the old one had."""
    plain = {
        name: value
        for name, value in entry.metadata.items()
        if _PLAIN_NAME.fullmatch(name) and _fits(value)
    }
    gone = dict.fromkeys(old or {})
    return {**gone, **plain, _FACTS: facts_of(entry), **payload_of(entry, vector)}


def _fits(value: Scalar) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _filter(where: Mapping[str, Scalar] | None) -> Any:
    """Write a filter by the facts of `edgebert.features.stores.facts`."""
    needed, refused = facts_asked(where)
    parts = [{_FACTS: {"$contains": fact}} for fact in needed]
    parts += [{_FACTS: {"$not_contains": fact}} for fact in refused]
    return {"$and": parts} if len(parts) > 1 else parts[0] if parts else None
