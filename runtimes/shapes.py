"""Which shapes an engine gets to see: few, so that what it keeps for each of them is bounded.

At any shape, OpenVINO took 1,500 MB for a 2-layer INT8 model after 21,000 texts; at these, 185 MB.

A row is computed at a length that depends on its own tokens alone. So its result is the same to the
last bit beside any other rows, also in INT8, where a difference of 1e-7 in a float can turn into a
step of the 8-bit number after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edgebert.types import Batch, FloatArray, IntArray

# Up to an eighth longer than a row, or 7 tokens: at most 12 % of the work is wasted from 64 on.
_STEPS = ((64, 8), (128, 16), (256, 32))
_LAST_STEP = 64
_MOST_ROWS = 64
_CALL_TOKENS = 32  # a call costs about as much as so many more tokens in one


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a batch that are run together.

    Attributes:
        rows: Which rows of the batch, int64 ``[n]``; the last one may be there more than once.
        length: To which they are padded, or cut where all that is cut is padding.
    """

    rows: IntArray
    length: int


def padded_length(length: int, *, limit: int | None) -> int:
    """Say to how many tokens a row is padded.

    Args:
        length: Of the row, in tokens.
        limit: Longest row that the model takes; None when that isn't known, and then a row is
            padded no further than it is.
    """
    if limit is None or length >= limit:
        return length
    step = next((step for longest, step in _STEPS if length <= longest), _LAST_STEP)
    return min(-(-length // step) * step, limit)


def pieces(batch: Batch, *, limit: int | None) -> Iterator[Piece]:
    """Cut a batch into pieces of rows of like length: 1, 2, 4, 8, 16, 32 or 64 rows each.

    The last row is run again where that is cheaper than one call more; it can't differ.

    Args:
        batch: Any batch.
        limit: See `padded_length`.
    """
    real = batch.attention_mask.shape[1] - np.argmax(batch.attention_mask[:, ::-1], axis=1)
    lengths = np.array([padded_length(int(length), limit=limit) for length in real])
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        while len(rows):
            count = _row_count(len(rows), int(length))
            yield Piece(np.pad(rows[:count], (0, max(0, count - len(rows))), "edge"), int(length))
            rows = rows[count:]


def take(batch: Batch, piece: Piece) -> Batch:
    """Take a piece out of a batch; what it is padded with is masked."""
    return batch.take(piece.rows, piece.length)


def put_together(
    parts: Sequence[tuple[Piece, FloatArray]], batch: Batch, *, per_token: bool
) -> FloatArray:
    """Make one output of a batch out of the pieces' outputs; where there was no token it is 0.

    Args:
        parts: Pieces, each with its output ``[n, …]``, or ``[n, length, …]``.
        batch: What was cut into them.
        per_token: Whether the second axis is that of the tokens.
    """
    rows, length = batch.input_ids.shape
    axes = parts[0][1].shape[2 if per_token else 1 :]
    whole = np.zeros((rows, length, *axes) if per_token else (rows, *axes), dtype=np.float32)
    for piece, values in parts:
        if per_token:
            shown = min(length, piece.length)
            whole[piece.rows, :shown] = values[:, :shown]
        else:
            whole[piece.rows] = values
    return whole


def _row_count(rows: int, length: int) -> int:
    above = 1 << (rows - 1).bit_length()
    if above <= _MOST_ROWS and (above - rows) * length <= _CALL_TOKENS:
        return above
    return min(1 << (rows.bit_length() - 1), _MOST_ROWS)
