"""How the teacher's outputs lie in the files of its cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from compress.models.capture import Features

_HALF_LIMIT = 1e3  # far below float16's 65,504; MobileBERT's hidden states are above it


@dataclass(frozen=True)
class Layout:
    """One file: a row's single vector, or a vector for each of its tokens.

    Logits stay float32, tags and places of answers included: they are few and soft targets.

    Attributes:
        name: ``logits``, ``pooled``, or ``hidden``, ``query``, ``key``, ``value`` with ``.LAYER``.
        width: Numbers a vector.
        tokens: Whether there is a vector for each token.
        dtype: ``float16`` or ``float32``.
    """

    name: str
    width: int
    tokens: bool
    dtype: str

    @property
    def vector_bytes(self) -> int:
        """Size of a vector."""
        return self.width * np.dtype(self.dtype).itemsize


def named_tensors(features: Features) -> dict[str, Tensor]:
    """Name what a forward pass gave, in a fixed order."""
    named = {"logits": features.logits, "pooled": features.pooled}
    found = {name: value for name, value in named.items() if value is not None}
    for kind in ("hidden", "query", "key", "value"):
        layers: dict[int, Tensor] = getattr(features, kind)
        found |= {f"{kind}.{layer}": layers[layer] for layer in sorted(layers)}
    return found


def layout_of(name: str, value: Tensor) -> Layout:
    """Say how an output is kept, from an example of it."""
    tokens = value.ndim == 3
    half = tokens and name != "logits" and float(value.abs().max()) < _HALF_LIMIT
    return Layout(name, value.shape[-1], tokens, "float16" if half else "float32")
