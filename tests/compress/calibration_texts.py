"""Random texts of many lengths, as recipes that calibrate take them."""

from __future__ import annotations

import numpy as np

from edgebert.types import Batch


def some_texts(count: int, *, most: int = 24, vocab: int = 60) -> list[Batch]:
    """Make texts of 4 to ``most`` random ids, one a batch."""
    rng = np.random.default_rng(0)
    return [one_text(rng.integers(5, vocab, rng.integers(4, most + 1))) for _ in range(count)]


def one_text(ids) -> Batch:
    """Make a batch of one text without padding."""
    row = np.asarray(ids, dtype=np.int64)[None]
    return Batch(row, np.ones_like(row), np.zeros_like(row), np.zeros(1, dtype=np.int64))


def padded(texts: list[Batch], *, pad_id: int = 0) -> Batch:
    """Put texts into one batch, padded to the longest."""
    longest = max(text.input_ids.shape[1] for text in texts)

    def join(name: str, filler: int) -> np.ndarray:
        rows = [getattr(text, name)[0] for text in texts]
        return np.array([[*row, *[filler] * (longest - len(row))] for row in rows])

    return Batch(
        join("input_ids", pad_id),
        join("attention_mask", 0),
        join("token_type_ids", 0),
        np.zeros(len(texts), dtype=np.int64),
    )
