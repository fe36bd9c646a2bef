"""LlamaIndex: a bundle as its ``BaseEmbedding``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from edgebert.adapters.source import Source, missing
from edgebert.runtime import Runtime

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
except ModuleNotFoundError as error:
    raise missing("LlamaIndex", "llama-index-core") from error

_ROWS = 256  # texts a call; the Runtime makes batches of its own


class EdgeBertEmbedding(BaseEmbedding):
    """Vectors for LlamaIndex's indices. The async methods run in a thread."""

    model_config = ConfigDict(extra="forbid")

    bundle: str
    backend: str = "auto"
    precision: str = "auto"
    truncate_dim: int | None = None
    model: str | None = None
    _source: Source = PrivateAttr()

    def __init__(
        self,
        bundle: str | Path | Runtime,
        *,
        backend: str = "auto",
        precision: str = "auto",
        truncate_dim: int | None = None,
        model: str | None = None,
        embed_batch_size: int = _ROWS,
        **base: Any,
    ) -> None:
        """See `edgebert.adapters.source.Source`; ``base`` are fields of ``BaseEmbedding``."""
        source = Source(
            bundle, backend=backend, precision=precision, truncate_dim=truncate_dim, model=model
        )
        base.setdefault("model_name", Path(source.config["bundle"]).name)
        super().__init__(embed_batch_size=embed_batch_size, **source.config, **base)
        self._source = source

    @classmethod
    def class_name(cls) -> str:
        """Name the class in what LlamaIndex writes."""
        return "EdgeBertEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._source.one(query, "query")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._source.one(text, "document")

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._source.many(texts, "document")

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)
