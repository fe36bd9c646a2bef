"""Token vectors to one vector a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from edgebert.errors import InputError, TaskError
from edgebert.inputs import check_choice
from edgebert.types import FloatArray, IntArray

HIDDEN, SENTENCE = "last_hidden_state", "sentence_embedding"


def text_vectors(
    outputs: Mapping[str, FloatArray], attention_mask: IntArray, how: str | None
) -> FloatArray:
    """Give each text's vector, not normalized: the graph's own, else the pooled hidden state.

    Args:
        outputs: A model's, by name: ``sentence_embedding`` float32 ``[batch, dim]``, or
            ``last_hidden_state`` float32 ``[batch, seq, hidden]``, or both.
        attention_mask: int64 ``[batch, seq]``.
        how: Name of the pooling, for a graph that doesn't pool; None where it isn't known.

    Returns:
        float32 ``[batch, dim]``.

    Raises:
        TaskError: The graph doesn't pool, and how to isn't known.
    """
    if SENTENCE in outputs:
        return outputs[SENTENCE]
    if how is None:
        raise TaskError(
            "Nothing says how this model's token vectors become one of a text. Put modules.json "
            "and 1_Pooling/config.json of the model beside config.json, or make a bundle of the "
            "model: python -m compress.export --model MODEL --task feature-extraction --pooling "
            "mean --output-dir OUT (or cls, max). encode_tokens() gives the token vectors."
        )
    return pool(outputs[HIDDEN], attention_mask, how)


def mean_pool(hidden: FloatArray, attention_mask: IntArray) -> FloatArray:
    """Average the vectors of the real tokens of each text.

    Args:
        hidden: Last hidden state, float32 ``[batch, seq, hidden]``.
        attention_mask: 1 for a real token, 0 for padding, int64 ``[batch, seq]``.

    Returns:
        One vector per text, float32 ``[batch, hidden]``.

    Raises:
        InputError: A row of the mask has no real token, so its mean is undefined.
    """
    _refuse_empty_rows(attention_mask)
    mask = attention_mask[:, :, None].astype(np.float32)  # [batch, seq, 1]
    counts = mask.sum(axis=1)  # [batch, 1]
    return np.asarray((hidden * mask).sum(axis=1) / counts, dtype=np.float32)


def cls_pool(hidden: FloatArray, attention_mask: IntArray) -> FloatArray:
    """Take the vector of the first token of each text; shapes and errors as `mean_pool`.

    Raises:
        InputError: The first token of a row is padding.
    """
    _refuse_empty_rows(attention_mask)
    if not attention_mask[:, 0].all():
        rows = np.flatnonzero(attention_mask[:, 0] == 0).tolist()
        raise InputError(f"Cannot pool rows {rows}: they are padded on the left; pad on the right.")
    return np.asarray(hidden[:, 0], dtype=np.float32)


def max_pool(hidden: FloatArray, attention_mask: IntArray) -> FloatArray:
    """Take the largest value of each dimension; shapes and errors as `mean_pool`."""
    _refuse_empty_rows(attention_mask)
    real = np.where(attention_mask[:, :, None] == 1, hidden, -np.inf)  # [batch, seq, hidden]
    return np.asarray(real.max(axis=1), dtype=np.float32)


_POOLS: dict[str, Callable[[FloatArray, IntArray], FloatArray]] = {
    "mean": mean_pool,
    "cls": cls_pool,
    "max": max_pool,
}


def pool(hidden: FloatArray, attention_mask: IntArray, how: str) -> FloatArray:
    """Pool as the bundle says: ``mean``, ``cls`` or ``max``.

    Args:
        hidden: float32 ``[batch, seq, hidden]``.
        attention_mask: int64 ``[batch, seq]``.
        how: Name of the pooling.

    Returns:
        float32 ``[batch, hidden]``.

    Raises:
        InputError: ``how`` has another name, or a row has no real token.
    """
    check_choice("pooling", how, tuple(_POOLS))
    return _POOLS[how](hidden, attention_mask)


def normalize_rows(vectors: FloatArray) -> FloatArray:
    """Give every vector unit length.

    Args:
        vectors: float32 ``[n, dim]``.

    Raises:
        InputError: A vector is all zeros, so it has no direction.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # [n, 1]
    if not lengths.all():
        rows = np.flatnonzero(lengths[:, 0] == 0).tolist()
        raise InputError(f"Vectors {rows} are all zeros and can't be normalized.")
    return np.asarray(vectors / lengths, dtype=np.float32)


def _refuse_empty_rows(attention_mask: IntArray) -> None:
    filled = attention_mask.any(axis=1)
    if not filled.all():
        rows = np.flatnonzero(~filled).tolist()
        raise InputError(f"Cannot pool rows {rows}: their attention_mask has no 1.")
