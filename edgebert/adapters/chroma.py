"""Chroma: a bundle as its ``EmbeddingFunction``, registered as ``edgebert``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgebert.adapters.source import Source, missing
from edgebert.errors import InputError
from edgebert.runtime import Runtime

try:
    from chromadb.api.types import Documents, EmbeddingFunction, Embeddings, Space
    from chromadb.utils.embedding_functions import register_embedding_function
except ModuleNotFoundError as error:
    raise missing("Chroma", "edgebert[chroma]") from error


class EdgeBertEmbeddingFunction(EmbeddingFunction[Documents]):
    """Vectors for Chroma's collections.

    Chroma keeps its settings with a collection, and makes it again from them once this module is
    imported; a bundle that was exchanged meanwhile is then refused.
    """

    def __init__(
        self,
        bundle: str | Path | Runtime,
        *,
        backend: str = "auto",
        precision: str = "auto",
        truncate_dim: int | None = None,
        model: str | None = None,
    ) -> None:
        """See `edgebert.adapters.source.Source`."""
        self._source = Source(
            bundle, backend=backend, precision=precision, truncate_dim=truncate_dim, model=model
        )

    def __call__(self, input: Documents) -> Embeddings:  # noqa: A002  # Chroma's own name
        """Give a vector a text, with the bundle's prompt for documents."""
        return list(self._source.encode(input, "document"))

    def embed_query(self, input: Documents) -> Embeddings:  # noqa: A002
        """Give a vector a query, with the bundle's prompt for queries."""
        return list(self._source.encode(input, "query"))

    @staticmethod
    def name() -> str:
        """Name it in a collection's settings."""
        return "edgebert"

    def default_space(self) -> Space:
        """Compare by cosine where a collection doesn't say otherwise."""
        return "cosine"

    def get_config(self) -> dict[str, Any]:
        """Give what `build_from_config` takes."""
        return dict(self._source.config)

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> EdgeBertEmbeddingFunction:
        """Make it again.

        Raises:
            InputError: Another bundle stands at the place now.
        """
        return EdgeBertEmbeddingFunction(**config)

    def validate_config_update(
        self, old_config: dict[str, Any], new_config: dict[str, Any]
    ) -> None:
        """Refuse another model for a collection that has vectors of this one."""
        for key in ("model", "truncate_dim"):
            if old_config.get(key) != new_config.get(key):
                raise InputError(f"A collection's {key} can't change; make another collection.")


_CHECKED = EdgeBertEmbeddingFunction.__call__  # Chroma has put a check around it


def _call(self: EdgeBertEmbeddingFunction, input: Documents) -> Embeddings:  # noqa: A002
    return _CHECKED(self, input) if len(input) else []  # which that check refuses


EdgeBertEmbeddingFunction.__call__ = _call  # type: ignore[method-assign]
register_embedding_function(EdgeBertEmbeddingFunction)  # type: ignore[no-untyped-call]
