"""LangChain: a bundle as its ``Embeddings``."""

from __future__ import annotations

from pathlib import Path

from edgebert.adapters.source import Source, missing
from edgebert.runtime import Runtime

try:
    from langchain_core.embeddings import Embeddings
except ModuleNotFoundError as error:
    raise missing("LangChain", "langchain-core") from error


class EdgeBertEmbeddings(Embeddings):
    """Vectors for LangChain's stores. The async methods run in LangChain's threads."""

    def __init__(
        self,
        bundle: str | Path | Runtime,
        *,
        backend: str = "auto",
        precision: str = "auto",
        truncate_dim: int | None = None,
    ) -> None:
        """See `edgebert.adapters.source.Source`."""
        self._source = Source(
            bundle, backend=backend, precision=precision, truncate_dim=truncate_dim
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Give a vector a text, with the bundle's prompt for documents."""
        return self._source.many(texts, "document")

    def embed_query(self, text: str) -> list[float]:
        """Give a query's vector, with the bundle's prompt for queries."""
        return self._source.one(text, "query")
