"""Qdrant: a collection of a server, or in local mode a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from edgebert.errors import InputError
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
from edgebert.features.stores.folders import require_room
from edgebert.features.stores.payload import VECTOR, entry_in, vectors_in
from edgebert.features.stores.qdrant_client import (
    Place,
    connect,
    failing,
    fold_commits,
    qdrant_package,
)
from edgebert.features.stores.qdrant_points import (
    FACTS,
    filter_of,
    name_of,
    points_of,
    requests_of,
)
from edgebert.types import FloatArray

_IDENTITY = "edgebert"
_ID = re.compile(r"[0-9a-f]{32}")
_IDS = 2048
_MORE = 16  # candidates beyond k, as an engine rounds otherwise than an exact search
_TIE = 1e-5  # cosines that may be the same


class QdrantStore(Store):
    """Entries as points whose id is the entry's, written as a UUID.

    Qdrant gives vectors of a cosine collection back normalized, and knows neither our int8 nor
    our binary. So it gets each vector as float32 to search, and the payload keeps it as it was put
    (see `edgebert.features.stores.payload`): `get` reads that, and candidates of a search are
    compared by that, so scores are those of every other store. The collection's metadata keeps the
    identity. Local mode holds all in memory and writes each point by itself: Qdrant recommends it
    up to 20,000 points.
    """

    kind = "qdrant"
    install = "pip install 'edgebert[qdrant]'"

    def __init__(self, place: Place, *, read_only: bool) -> None:
        self._at, self._read_only = place, read_only
        self._place = f"qdrant:{place}"
        self._client: Any = None  # a QdrantClient: its types differ from version to version
        self._identity: Identity | None = None
        self._sync: Callable[[], None] = lambda: None

    @classmethod
    def open(cls, location: str, *, read_only: bool = False) -> QdrantStore:
        """See `Store.open`; ``location`` is a folder, or ``http://host:6333/collection``.

        The environment's ``QDRANT_API_KEY`` is sent to a server.
        """
        qdrant_package(cls.install)
        store = cls(Place.of(location), read_only=read_only)
        try:
            store._look()
        except BaseException:
            store.close()
            raise
        return store

    def _look(self) -> None:
        """Open the place if it's there, and the collection if it's in it."""
        folder = self._at.folder
        if folder is not None and not (folder / "meta.json").exists():
            own = (".meta.json", "collection")
            require_room(folder, kind=self.kind, own=own, read_only=self._read_only)
            return
        if self._client is None:
            self._client = connect(self._at)
        with failing(self._place, "can't be opened"):
            if self._client.collection_exists(self._at.collection):
                config = self._client.get_collection(self._at.collection).config
                self._identity = self._identity_in(config.metadata)
                self._sync = fold_commits(self._client, self._at.collection)
                return
            others = self._client.get_collections().collections if folder else []
        if others:
            raise InputError(f"{self._place} holds other collections. Give a folder of its own.")
        if self._read_only:
            raise InputError(f"There is no store {self._place}. Extract into it first.")

    def _identity_in(self, metadata: Any) -> Identity:
        if not metadata or _IDENTITY not in metadata:
            raise InputError(
                f"{self._place} is a collection that edgebert didn't make. Give another name."
            )
        return Identity.from_json(metadata[_IDENTITY])

    @property
    def identity(self) -> Identity | None:
        """See `Store.identity`; it's kept in the collection's metadata."""
        return self._identity

    def bind(self, identity: Identity) -> None:
        """See `Store.bind`.

        Raises:
            InputError: Also where the server is older than 1.16, which keeps no metadata.
        """
        if self._identity is None:
            self._look()
        if self._identity is None:
            check_writable(read_only=self._read_only, place=self._place)
            if self._client is None:
                self._client = connect(self._at)
            self._create(identity)
            self._look()
        assert self._identity is not None
        self._identity.require(identity, place=self._place)

    def _create(self, identity: Identity) -> None:
        from qdrant_client import models

        with failing(self._place, "can't be made"):
            self._client.create_collection(
                self._at.collection,
                vectors_config=models.VectorParams(
                    size=identity.dim, distance=models.Distance.COSINE
                ),
                metadata={_IDENTITY: identity.to_json()},
            )
            if self._at.folder is None:  # local mode has none
                self._client.create_payload_index(
                    self._at.collection, FACTS, models.PayloadSchemaType.KEYWORD
                )

    def __len__(self) -> int:
        if self._identity is None:
            return 0
        with failing(self._place, "can't be read"):
            return int(self._client.count(self._at.collection, exact=True).count)

    def ids(self) -> Iterator[str]:
        """See `Store.ids`; Qdrant scrolls in the order of ids."""
        after: Any = None
        while self._identity is not None:
            with failing(self._place, "can't be read"):
                points, after = self._client.scroll(
                    self._at.collection, limit=_IDS, offset=after, with_payload=False
                )
            yield from (name_of(point) for point in points)
            if after is None:
                return

    def _retrieve(
        self, ids: Sequence[str], payload: bool | list[str]
    ) -> dict[str, Mapping[str, Any]]:
        known = [str(UUID(one)) for one in ids if _ID.fullmatch(one)]
        found: dict[str, Mapping[str, Any]] = {}
        for some in slices(known if self._identity is not None else [], _IDS):
            with failing(self._place, "can't be read"):
                points = self._client.retrieve(self._at.collection, some, with_payload=payload)
            found |= {name_of(point): point.payload for point in points}
        return found

    def get(self, ids: Sequence[str]) -> Vectors:
        """See `Store.get`."""
        found = self._retrieve(ids, [VECTOR])
        return vectors_in(in_order(found, ids, place=self._place), self._identity)

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """See `Store.entries`."""
        found = {
            name: entry_in(payload, name=name, text=payload["text"])
            for name, payload in self._retrieve(ids, True).items()
        }
        return in_order(found, ids, place=self._place)

    def write(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """See `Store.write`; by requests, each of which may be done again."""
        check_writable(read_only=self._read_only, place=self._place)
        identity = check_write(self._identity, entries, vectors, place=self._place)
        for rows in requests_of(entries):
            points = points_of(entries[rows], vectors[rows], identity)
            with failing(self._place, "can't be written"):
                self._client.upsert(self._at.collection, points, wait=True)
        self._sync()

    def delete(self, ids: Sequence[str]) -> None:
        """See `Store.delete`."""
        from qdrant_client import models

        check_writable(read_only=self._read_only, place=self._place)
        known = [str(UUID(one)) for one in ids if _ID.fullmatch(one)]
        for some in slices(known if self._identity is not None else [], _IDS):
            with failing(self._place, "can't be written"):
                chosen = models.PointIdsList(points=list(some))
                self._client.delete(self._at.collection, chosen, wait=True)
        self._sync()

    def search(
        self,
        vector: FloatArray,
        k: int,
        *,
        where: Mapping[str, Scalar] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """See `Store.search`; local mode compares with every vector, always."""
        identity = self._identity
        if identity is None:
            return []
        check_query(identity, vector, k)
        points = self._candidates(vector, k, where, exact=exact)
        block = (
            [name_of(point) for point in points],
            vectors_in([point.payload for point in points], identity),
        )
        best = nearest([block], vector, k, identity)
        entries = self.entries([name for name, _ in best])
        return [Hit(entry=one, score=own[1]) for one, own in zip(entries, best, strict=True)]

    def _candidates(
        self, vector: FloatArray, k: int, where: Mapping[str, Scalar] | None, *, exact: bool
    ) -> list[Any]:
        """Give the best ``k`` points and, if ``exact``, all that may have the last one's score."""
        from qdrant_client import models

        assert self._identity is not None
        if self._identity.dtype == "binary":
            query = full_vectors(np.packbits(vector > 0)[None], self._identity)[0]
        else:
            query = vector
        if not query.any():  # like nothing: all have the score 0
            return self._scrolled(where, k)
        server = self._at.folder is None
        limit = k + _MORE
        while True:
            with failing(self._place, "can't be searched"):
                points = self._client.query_points(
                    self._at.collection,
                    query=query.tolist(),
                    query_filter=filter_of(where),
                    limit=limit,
                    search_params=models.SearchParams(exact=exact) if server else None,
                    with_payload=[VECTOR],
                ).points
            tied = len(points) == limit and points[-1].score > points[k - 1].score - _TIE
            if not exact or not tied:
                return list(points)
            limit *= 2

    def _scrolled(self, where: Mapping[str, Scalar] | None, k: int) -> list[Any]:
        with failing(self._place, "can't be searched"):
            points, _ = self._client.scroll(
                self._at.collection, filter_of(where), limit=k, with_payload=[VECTOR]
            )
        return list(points)

    def journal_path(self) -> Path | None:
        """See `Store.journal_path`, and `Place.journal`."""
        return self._at.journal()

    def close(self) -> None:
        """See `Store.close`."""
        if self._client is not None:
            self._client.close()
        self._client = None
