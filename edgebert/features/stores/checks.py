"""What every store checks before it writes or searches, so that all refuse the same things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from edgebert.errors import InputError
from edgebert.features.entries import Entry, Identity, Vectors
from edgebert.types import FloatArray

T = TypeVar("T")

FORMS: dict[str, type[np.generic[Any]]] = {
    "float32": np.float32,
    "float16": np.float16,
    "int8": np.int8,
    "binary": np.uint8,
}


def width(identity: Identity) -> int:
    """Count the numbers of a stored vector: bytes of ``binary``, else dimensions."""
    return -(-identity.dim // 8) if identity.dtype == "binary" else identity.dim


def no_vectors(identity: Identity | None) -> Vectors:
    """Give what `Store.get` gives for no ids: an array of no rows."""
    if identity is None:
        return np.empty((0, 0), np.float32)
    return np.empty((0, width(identity)), FORMS[identity.dtype])


def check_write(
    identity: Identity | None, entries: Sequence[Entry], vectors: Vectors, *, place: str
) -> Identity:
    """Refuse what can't be written, before anything is.

    Returns:
        The identity, which is there.

    Raises:
        InputError: The store isn't bound, two ids are the same, or the vectors aren't one finite
            row an entry in the identity's form.
    """
    if identity is None:
        raise InputError(f"{place} isn't bound to an identity yet. Call bind() before write().")
    form, shape = np.dtype(FORMS[identity.dtype]), (len(entries), width(identity))
    if vectors.dtype != form or vectors.shape != shape:
        raise InputError(
            f"{len(entries)} entries need vectors {form.name} {list(shape)}, "
            f"got {vectors.dtype.name} {list(vectors.shape)}."
        )
    if vectors.dtype.kind == "f" and not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise InputError(f"The vector of entry {entries[row].id!r} holds NaN or infinity.")
    if len({entry.id for entry in entries}) < len(entries):
        raise InputError("Two entries of one write have the same id. Write them one by one.")
    return identity


def check_query(identity: Identity, vector: FloatArray, k: int) -> None:
    """Refuse a query that has no answer.

    Raises:
        InputError: Its dimensions aren't the store's, it isn't finite, or ``k`` is below 1.
    """
    if vector.shape != (identity.dim,):
        raise InputError(f"The query must have shape [{identity.dim}], got {list(vector.shape)}.")
    if not np.isfinite(vector).all():
        raise InputError("The query vector holds NaN or infinity.")
    if k < 1:
        raise InputError(f"k must be 1 or more, got {k}.")


def in_order(found: dict[str, T], ids: Sequence[str], *, place: str) -> list[T]:
    """Give what was found in the order of ``ids``.

    Raises:
        InputError: One of them wasn't; the first one is named.
    """
    for one in ids:
        if one not in found:
            raise InputError(f"{place} has no entry with the id {one!r:.100}.")
    return [found[one] for one in ids]


def check_writable(*, read_only: bool, place: str) -> None:
    """Refuse to change a store that was opened to be read.

    Raises:
        InputError: It was.
    """
    if read_only:
        raise InputError(f"{place} is open read-only. Open it without read_only to change it.")


def slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
