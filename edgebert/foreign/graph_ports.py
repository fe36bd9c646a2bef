"""What a model file declares, read from the file itself: no engine is started for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Shape: TypeAlias = "tuple[int | None, ...] | None"
"""Sizes by axis, None for one that is free; None for a shape that isn't declared at all."""


@dataclass(frozen=True)
class GraphPorts:
    """A model's inputs, outputs and kinds of weights.

    Attributes:
        inputs: Shape of each input by name.
        outputs: Shape of each output by name.
        weight_types: Of the matrices among the weights: ``f32``, ``f16``, ``i8``, ``i4``, or
            ``other``.
    """

    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    weight_types: frozenset[str]
