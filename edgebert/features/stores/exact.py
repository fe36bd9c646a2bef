"""Search by comparing with every vector: the same scores and order for each store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgebert.features.entries import Entry, Identity, Scalar, Vectors
from edgebert.features.stores.base import full_vectors
from edgebert.types import FloatArray, IntArray

_ROUNDING = 1e-3  # a cosine in float32 is off by less, up to 16,000 dimensions


def scores(vectors: Vectors, query: FloatArray, identity: Identity) -> FloatArray:
    """Say how alike vectors and a query are; see `edgebert.features.entries.Hit`.

    Each row is summed by itself, so equal vectors have equal scores, to the bit, wherever they
    stand: a matrix product doesn't promise that. A vector of zeros has the score 0.

    Args:
        vectors: As stored, ``[n, width]``.
        query: float32 ``[dim]``.
        identity: Of the vectors.

    Returns:
        float32 ``[n]``.
    """
    if identity.dtype == "binary":
        bits = np.unpackbits(vectors ^ np.packbits(query > 0), axis=1, count=identity.dim)
        return np.asarray(1 - bits.sum(axis=1) / identity.dim, np.float32)
    full = full_vectors(vectors, identity).astype(np.float64)  # squares of small numbers are small
    target = query.astype(np.float64)
    dots = (full * target).sum(axis=1)
    lengths = np.sqrt((full * full).sum(axis=1)) * np.sqrt((target * target).sum())
    cosines = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
    return np.asarray(cosines.clip(-1, 1), np.float32)


def nearest(
    blocks: Iterable[tuple[Sequence[str], Vectors]],
    query: FloatArray,
    k: int,
    identity: Identity,
) -> list[tuple[str, float]]:
    """Find the ids of the vectors most like a query, in memory of one block.

    Args:
        blocks: Ids and their vectors as stored; each id once.
        query: float32 ``[dim]``.
        k: How many at most.
        identity: Of the vectors.

    Returns:
        Ids with scores, the best first; ties by id.
    """
    best: list[tuple[float, str]] = []  # by minus the score, so that sorting is the order
    for ids, vectors in blocks:
        floor = -best[-1][0] if len(best) == k else -np.inf
        rows = _promising(vectors, query, k, identity, floor)
        found = scores(vectors[rows], query, identity).tolist()
        best += [(-score, ids[row]) for row, score in zip(rows.tolist(), found, strict=True)]
        best = sorted(best)[:k]
    return [(name, -score) for score, name in best]


def _promising(
    vectors: Vectors, query: FloatArray, k: int, identity: Identity, floor: float
) -> IntArray:
    """Find the rows that may have one of the `k` best scores, and ``floor`` at least."""
    if identity.dtype == "binary":
        rough, margin = scores(vectors, query, identity), 0.0
        known = np.ones(len(rough), bool)
    else:
        full, margin = full_vectors(vectors, identity), 2 * _ROUNDING
        unit = query.astype(np.float64)
        unit /= np.sqrt((unit * unit).sum()) or 1  # zeros stay zeros
        with np.errstate(all="ignore"):
            squares = np.einsum("ij,ij->i", full, full)
            rough = full @ unit.astype(np.float32) / np.sqrt(squares)
        known = (squares > 1e-30) & (squares < 1e30)  # neither rounded away nor infinite
    if known.sum() > k:
        floor = max(floor, np.partition(rough[known], -k)[-k])
    return np.flatnonzero(~known | (rough >= floor - margin))


def matches(entry: Entry, where: Mapping[str, Scalar] | None) -> bool:
    """Say whether an entry's metadata, or its ``key``, equals all that is asked.

    True and 1 differ, 1 and 1.0 don't; None asks for what is None or isn't there.
    """
    for name, value in (where or {}).items():
        mine = entry.key if name == "key" else entry.metadata.get(name)
        if mine != value or isinstance(mine, bool) != isinstance(value, bool):
            return False
    return True
