"""Entries as points of Qdrant, and filters on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from edgebert.features.entries import Entry, Identity, Scalar, Vectors
from edgebert.features.stores.base import full_vectors
from edgebert.features.stores.facts import facts_asked, facts_of
from edgebert.features.stores.payload import payload_of

FACTS = "edgebert_facts"
_POINTS, _CHARACTERS = 256, 2 << 20  # a request: a server takes 32 MB of JSON by default


def points_of(entries: Sequence[Entry], vectors: Vectors, identity: Identity) -> list[Any]:
    """Give the points: float32 vectors to search, and payloads that hold everything.

    ``text``, ``key`` and ``metadata`` are for other programs, which can read and filter them.
    """
    from qdrant_client import models

    points = []
    full = full_vectors(vectors, identity)
    for entry, vector, searched in zip(entries, vectors, full, strict=True):
        own = {"text": entry.text, "key": entry.key, "metadata": dict(entry.metadata)}
        payload = {**own, FACTS: facts_of(entry), **payload_of(entry, vector)}
        identifier = str(UUID(entry.id))
        points.append(models.PointStruct(id=identifier, vector=searched.tolist(), payload=payload))
    return points


def requests_of(entries: Sequence[Entry]) -> Iterator[slice]:
    """Cut entries into requests that a server takes, a long text by itself if need be."""
    start, size = 0, 0
    for row, entry in enumerate(entries):
        size += len(entry.text)
        if row > start and (row - start == _POINTS or size > _CHARACTERS):
            yield slice(start, row)
            start, size = row, len(entry.text)
    if entries:
        yield slice(start, len(entries))


def name_of(point: Any) -> str:
    """Give the id of the entry that a point is."""
    return UUID(point.id).hex


def filter_of(where: Mapping[str, Scalar] | None) -> Any:
    """Write a filter by the facts of `edgebert.features.stores.facts`."""
    from qdrant_client import models

    def conditions(facts: list[str]) -> Any:  # the client's own type is a list of eight types
        return [
            models.FieldCondition(key=FACTS, match=models.MatchValue(value=fact)) for fact in facts
        ]

    needed, refused = facts_asked(where)
    if not (needed or refused):
        return None
    return models.Filter(must=conditions(needed), must_not=conditions(refused))
