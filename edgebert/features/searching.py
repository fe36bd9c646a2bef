"""Ask a store for what is most like a text."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from edgebert.errors import InputError
from edgebert.features.entries import Hit, Identity, Scalar
from edgebert.features.extraction import opened_runtime
from edgebert.features.model import Model
from edgebert.features.rows import name_of, scalar_of
from edgebert.features.settings import Engine
from edgebert.features.stores import open_store, shown_uri
from edgebert.features.stores.base import Store
from edgebert.inputs import check_count, check_texts
from edgebert.runtime import Runtime
from edgebert.types import FloatArray

_MANY = 10_000  # hits; for more, a store's entries are counted first


def search(
    store: str | Store,
    query: str,
    bundle: str | Path | Runtime,
    *,
    k: int = 10,
    where: Mapping[str, Scalar] | None = None,
    exact: bool = False,
    role: str | None = "query",
    engine: Engine | None = None,
) -> list[Hit]:
    """Find the entries of a store that are most like a text.

    Args:
        store: URI of a store, or an open one.
        query: The text.
        bundle: The one that the store was made with: its directory, or an open
            `edgebert.Runtime`.
        k: How many at most.
        where: Metadata that must be equal; ``key`` asks for the source's key.
        exact: Compare with every entry, whatever index the store has.
        role: Whose prompt is put before the query: ``query``, ``document`` or None.
        engine: How a bundle's directory is opened.

    Returns:
        The best first.

    Raises:
        InputError: The store has nothing, or vectors of another identity, or of tokens.
        StoreError: The store failed.
    """
    check_count("k", k)
    check_texts([query], name="query")
    if not query.strip():
        raise InputError(f"query is {query!r:.80}, which says nothing; give a text.")
    conditions = _checked(where or {})
    with ExitStack() as stack:
        if isinstance(store, Store):
            opened, place = store, f"The store ({store.kind})"
        else:
            opened = stack.enter_context(open_store(store, read_only=True))
            place = shown_uri(store)
        identity = opened.identity
        if identity is None:
            raise InputError(f"{place} has no vectors yet; extract into it first.")
        runtime = stack.enter_context(opened_runtime(bundle, engine, identity))
        check_identity(runtime, identity, place=place)
        vector = query_vector(runtime, query, identity, role=role)
        k = min(k, max(1, len(opened))) if k > _MANY else k  # engines make room for so many
        return opened.search(vector, k, where=conditions, exact=exact)


def _checked(where: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Take conditions as `extract` takes metadata; NaN is None there as here."""
    try:
        return {name_of(name): scalar_of(name, value) for name, value in where.items()}
    except ValueError as error:
        raise InputError(f"where: {error}, which no entry has.") from error


def check_identity(runtime: Runtime, identity: Identity, *, place: str) -> None:
    """Make sure that a runtime's vectors may be compared with a store's.

    Raises:
        InputError: They differ; every difference is named.
    """
    identity.require(Model.like(runtime, identity).identity, place=place)


def query_vector(
    runtime: Runtime, query: str, identity: Identity, *, role: str | None = "query"
) -> FloatArray:
    """Embed a query for a store: float32 ``[dim]``.

    Raises:
        InputError: The store has vectors of tokens.
    """
    if identity.per_token:
        raise InputError(
            "This store has vectors of tokens, with which one of a text can't be compared. Give "
            "its search() a token's vector of Runtime.encode_tokens()."
        )
    policy = {"windows": "window", "chunks": "window"}.get(identity.long, identity.long)
    found = runtime.encode([query], role=role, truncate_dim=identity.dim, on_long=policy)
    vector: FloatArray = found[0]
    return vector
