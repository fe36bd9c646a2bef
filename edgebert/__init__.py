"""Run compressed BERT students on any CPU, verified where they land.

``import edgebert`` loads numpy and the standard library only; each name below is resolved on first
use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebert.runtime import Runtime as Runtime

__version__ = "0.1.0"

_PUBLIC = {"Runtime": "edgebert.runtime"}

__all__ = ["Runtime", "__version__"]


def __getattr__(name: str) -> Any:  # the type of a module attribute can't be known here
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
