"""Texts of many lengths, put together so that little padding is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgebert.errors import InputError
from edgebert.inputs import check_count
from edgebert.text.tokenizer import Encoding
from edgebert.types import Batch, IntArray

MAX_TOKENS = 4096
"""Default budget of cells a batch: 32 texts of 128 tokens."""

# A batch must not take longer than its texts one by one: what is lost on padding has to be below
# what a call costs by itself, some 16 tokens' time for a small student, or a tenth of the whole.
_FREE_PADDING = 16
_MOST_PADDING = 0.1


def pad(encodings: Sequence[Encoding], *, pad_id: int) -> Batch:
    """Pad to the longest, on the right.

    Args:
        encodings: Any number of texts; none gives arrays of shape ``[0, 0]``.
        pad_id: Id of the padding token.
    """
    shape = (len(encodings), max(map(len, encodings), default=0))
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    attention_mask = np.zeros(shape, dtype=np.int64)
    token_type_ids = np.zeros(shape, dtype=np.int64)
    for row, encoding in enumerate(encodings):
        length = len(encoding)
        input_ids[row, :length] = encoding.input_ids
        attention_mask[row, :length] = 1
        token_type_ids[row, :length] = encoding.token_type_ids
    dropped = np.array([encoding.dropped_tokens for encoding in encodings], dtype=np.int64)
    return Batch(input_ids, attention_mask, token_type_ids, dropped)


def plan_batches(
    lengths: Sequence[int], *, max_tokens: int = MAX_TOKENS, batch_size: int | None = None
) -> list[list[int]]:
    """Group rows of like length, so that a batch padded to its longest keeps to a budget.

    A batch has 16 cells of padding at most, or a tenth of its tokens.

    Args:
        lengths: Tokens of each row.
        max_tokens: Most cells a batch may have, padding counted. A row that is longer than this
            makes a batch of its own.
        batch_size: Most rows a batch, or None for as many as the budget allows.

    Returns:
        Row numbers of each batch: every row once, from short to long, ties in their order.

    Raises:
        InputError: ``max_tokens`` or ``batch_size`` is below 1.
    """
    check_count("max_tokens", max_tokens)
    most_rows = len(lengths) if batch_size is None else check_count("batch_size", batch_size)
    batches: list[list[int]] = []
    tokens = 0  # of the last batch
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        rows = batches[-1] if batches else []
        cells = (len(rows) + 1) * lengths[row]  # this row is the longest so far
        tokens += lengths[row]
        padded = cells - tokens > max(_FREE_PADDING, _MOST_PADDING * tokens)
        if rows and len(rows) < most_rows and cells <= max_tokens and not padded:
            rows.append(row)
        else:
            batches.append([row])
            tokens = lengths[row]
    return batches


def check_batch(
    batch: Batch,
    *,
    max_length: int,
    vocab_size: int | None = None,
    type_vocab_size: int | None = None,
) -> None:
    """Make sure that a caller's own batch means what an engine takes it to mean.

    Args:
        batch: The caller's.
        max_length: How many positions the model has.
        vocab_size: How many ids it has, or None where that isn't known. OpenVINO computes with
            zeros for an id beyond them, and says nothing.
        type_vocab_size: How many segments it has, in the same way.

    Raises:
        InputError: It is no `Batch` of arrays, the shapes or types differ, there is no row, a row
            has no real token, or its mask is not ones and then zeros. BERT counts positions from
            the left, so left padding and holes would give other vectors than the text alone. Or the
            batch is longer than ``max_length``, or has an id or a segment that the model's tables
            have no row for.
    """
    if not isinstance(batch, Batch):
        raise InputError(f"batch is of type {type(batch).__name__}; give a Batch of tokenize().")
    names = ("input_ids", "attention_mask", "token_type_ids")
    for name in names:
        array = getattr(batch, name)
        if not isinstance(array, np.ndarray):
            raise InputError(f"{name} is of type {type(array).__name__}; give a numpy array.")
    shape = batch.input_ids.shape
    for name in names:
        array = getattr(batch, name)
        if array.ndim != 2 or array.shape != shape or array.dtype != np.int64:
            raise InputError(
                f"{name} is {array.dtype} {list(array.shape)}; it must be int64 [batch, seq], "
                f"as input_ids {list(shape)}."
            )
    mask = batch.attention_mask
    wrong = ((mask != 0) & (mask != 1)).any(axis=1) | (np.diff(mask, axis=1) > 0).any(axis=1)
    if wrong.any():
        raise InputError(
            f"attention_mask of rows {np.flatnonzero(wrong).tolist()} is not ones and then zeros; "
            "pad on the right, without holes."
        )
    if not mask.size:
        raise InputError(f"The batch has the shape {list(shape)}, so there is nothing to run.")
    if (mask[:, 0] == 0).any():
        raise InputError("A row of attention_mask has no 1, so there is nothing to run.")
    if shape[1] > max_length:
        raise InputError(
            f"The batch has {shape[1]} tokens a row; the model has {max_length} positions. Cut it."
        )
    _check_rows("input_ids", batch.input_ids, vocab_size)
    _check_rows("token_type_ids", batch.token_type_ids, type_vocab_size)


def _check_rows(name: str, ids: IntArray, rows: int | None) -> None:
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or (rows is not None and most >= rows):
        room = "0 or above" if rows is None else f"from 0 to {rows - 1}"
        raise InputError(f"{name} holds {least if least < 0 else most}; ids are {room}.")
