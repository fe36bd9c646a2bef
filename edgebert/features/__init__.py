"""Offline features: texts through a bundle into a vector store, each row exactly once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebert.features.extraction import extract as extract
    from edgebert.features.searching import search as search
    from edgebert.features.settings import Engine as Engine
    from edgebert.features.stores import open_store as open_store

_PUBLIC = {
    "Engine": "edgebert.features.settings",
    "extract": "edgebert.features.extraction",
    "open_store": "edgebert.features.stores",
    "search": "edgebert.features.searching",
}

__all__ = ["Engine", "extract", "open_store", "search"]


def __getattr__(name: str) -> Any:  # the type of a module attribute can't be known here
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
