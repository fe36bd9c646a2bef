"""Run compressed BERT students on any CPU, verified where they land.

``import edgebert`` loads numpy and the standard library only; each name below is resolved on first
use.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgebert.runtime import Runtime as Runtime

# From 1.29 on, importing ONNX Runtime starts a thread that writes to the user's cache folder and
# sends data to its maker; and a forked child with it hangs at its exit. Nothing of ours may do so,
# and it can only be refused before that import. Set it to 0 to have it back.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"

_PUBLIC = {"Runtime": "edgebert.runtime"}

__all__ = ["Runtime", "__version__"]


def __getattr__(name: str) -> Any:  # the type of a module attribute can't be known here
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
