"""LanceDB: a bundle as an embedding function of its registry, named ``edgebert``."""

from __future__ import annotations

from typing import Any

from edgebert.adapters.source import Source, missing
from edgebert.runtime import Runtime

try:
    from lancedb.embeddings import TextEmbeddingFunction, register
    from pydantic import PrivateAttr
except ModuleNotFoundError as error:
    raise missing("LanceDB", "edgebert[lancedb]") from error


@register("edgebert")  # type: ignore[no-untyped-call]
class EdgeBertFunction(TextEmbeddingFunction):
    """Vectors for LanceDB's tables: ``EdgeBertFunction.create(bundle="folder")``.

    LanceDB keeps its settings with a table, and makes it again from them once this module is
    imported; a bundle that was exchanged meanwhile is then refused.
    """

    bundle: str
    backend: str = "auto"
    precision: str = "auto"
    truncate_dim: int | None = None
    model: str | None = None
    _source: Source = PrivateAttr()

    def __init__(self, **settings: Any) -> None:
        """See `edgebert.adapters.source.Source`; called by `create`."""
        source = Source(**settings)
        super().__init__(**source.config)
        self._source = source

    @classmethod
    def create(cls, **settings: Any) -> EdgeBertFunction:
        """Make it of a bundle's path or of a `Runtime`; see `edgebert.adapters.source.Source`."""
        given = settings.get("bundle")
        function: EdgeBertFunction = (
            cls(**settings)  # which LanceDB would copy
            if isinstance(given, Runtime)
            else super().create(**settings)  # type: ignore[no-untyped-call]
        )
        function._original_args = dict(function._source.config)
        return function

    def ndims(self) -> int:
        """Give the vectors' dimensions."""
        return self._source.dim

    def compute_query_embeddings(self, query: Any, *_args: Any, **_named: Any) -> list[Any]:
        """Give a vector a query, with the bundle's prompt for queries."""
        return list(self._source.encode(list(self.sanitize_input(query)), "query"))

    def generate_embeddings(self, texts: Any, *_args: Any, **_named: Any) -> list[Any]:
        """Give a vector a text, with the bundle's prompt for documents."""
        return list(self._source.encode(list(texts), "document"))

    # A model on this machine fails the second time as it did the first.

    def compute_query_embeddings_with_retry(self, *args: Any, **named: Any) -> list[Any]:
        """Do what `compute_query_embeddings` does, once."""
        return self.compute_query_embeddings(*args, **named)

    def compute_source_embeddings_with_retry(self, *args: Any, **named: Any) -> list[Any]:
        """Do what ``compute_source_embeddings`` does, once."""
        return self.compute_source_embeddings(*args, **named)
