"""How long an input a model's position table allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# These count positions from pad_token_id + 1, so the table has rows that no token can use.
_OFFSET_FAMILIES = (
    "camembert",
    "longformer",
    "mpnet",
    "roberta",
    "xlm-roberta",
    "xlm-roberta-xl",
)
_OFFSET_PAD = 1  # what transformers takes for each of them when config.json names none
_DISTILBERT_ROWS = 512  # the same, for the table's length


def max_positions(config: Mapping[str, Any]) -> int | None:
    """Give the longest input in tokens, or None where the configuration sets no limit.

    Args:
        config: What a checkpoint's ``config.json`` holds.
    """
    family = config.get("model_type")
    rows = config.get("max_position_embeddings")
    if rows is None and family == "distilbert":
        return _DISTILBERT_ROWS
    if not isinstance(rows, int) or rows < 1:
        return None
    if family not in _OFFSET_FAMILIES:
        return rows
    padding = config.get("pad_token_id")
    return rows - (padding if isinstance(padding, int) else _OFFSET_PAD) - 1
