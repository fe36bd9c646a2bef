"""Vector stores, one module each, named as the scheme of their URIs."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgebert.errors import InputError

if TYPE_CHECKING:
    from edgebert.features.stores.base import Store

STORES = {  # the class in the module of each scheme
    "sqlite": "SqliteStore",
    "lancedb": "LanceStore",
    "parquet": "ParquetStore",
    "npy": "NpyStore",
    "faiss": "FaissStore",
    "qdrant": "QdrantStore",
    "chroma": "ChromaStore",
    "postgresql": "PostgresStore",
    "duckdb": "DuckStore",
    "usearch": "UsearchStore",
}


def open_store(uri: str, *, read_only: bool = False) -> Store:
    """Open a vector store; a place that isn't there becomes an empty one.

    Args:
        uri: ``sqlite:notes.db``, ``lancedb:folder``, ``parquet:folder``, ``npy:folder``,
            ``faiss:folder``, ``qdrant:folder`` or ``qdrant:http://host:6333/collection``,
            ``postgresql://user@host/database?table=notes``, ``duckdb:notes.duckdb``,
            ``chroma:folder``, ``usearch:folder``. Without a scheme it is SQLite's file.
        read_only: Change nothing; a place that isn't there is then an error.

    Raises:
        InputError: There is no such kind of store, or something else stands at this place.
        PackageMissingError: The store's package isn't installed.
        StoreError: It can't be opened.
    """
    scheme, separator, location = uri.partition(":")
    if not separator:
        scheme, location = "sqlite", uri
    scheme = {"postgres": "postgresql"}.get(scheme, scheme)
    if scheme not in STORES or not location:
        raise InputError(
            f"{shown_uri(uri)!r:.200} names no store; allowed: "
            f"{', '.join(f'{one}:…' for one in STORES)}."
        )
    module = import_module(f"edgebert.features.stores.{scheme}")
    maker: Any = getattr(module, STORES[scheme])
    store: Store = maker.open(uri if scheme == "postgresql" else location, read_only=read_only)
    return store


def shown_uri(uri: str) -> str:
    """Give a store's URI as it may be printed: without a password or a key."""
    hidden = re.sub(r"(://[^/?#:@]*):[^?#]*@", r"\1:***@", uri)
    return re.sub(r"(?i)([?&](?:[a-z]*password|api_?key)=)[^&]*", r"\1***", hidden)
