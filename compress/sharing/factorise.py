"""Embedding tables of fewer columns, and the matrix that gives the width back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from compress.models.basis import mean_reflection

_ROWS = 8192  # words at a time: bounds the memory of large vocabularies
_CUT = 1e-12  # part of the largest eigenvalue that counts as none


@dataclass(frozen=True, kw_only=True)
class Embeddings:
    """What is summed and normalised before the first layer.

    Attributes:
        words: ``[V, H]``.
        positions: ``[P, H]``, those that are used, the first of them first.
        token_types: ``[T, H]``; the first is the common one.
        norm_weight: Of the LayerNorm after the sum, ``[H]``.
        norm_bias: The same.
        eps: Of the norm.
    """

    words: Tensor
    positions: Tensor
    token_types: Tensor
    norm_weight: Tensor
    norm_bias: Tensor
    eps: float


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Tables, the norm of their sum, and what makes that as wide as it was.

    Attributes:
        words: ``[V, E]``.
        positions: ``[P, E]``.
        token_types: ``[T, E]``.
        norm_weight: ``[E]``.
        norm_bias: ``[E]``.
        mapping: ``[H, E]``.
        mapping_bias: ``[H]``.
    """

    words: Tensor
    positions: Tensor
    token_types: Tensor
    norm_weight: Tensor
    norm_bias: Tensor
    mapping: Tensor
    mapping_bias: Tensor


def factorise_embeddings(whole: Embeddings, size: int, *, counts: Tensor | None = None) -> Factors:
    """Give the tables fewer columns, and a matrix behind their norm (Lan et al., 2020).

    ``LayerNorm_H(w + p + t)`` becomes ``M LayerNorm_E(w' + p' + t') + c``. With ``E = H`` the
    tables stay and ``M`` is the identity.

    Args:
        whole: The trained tables.
        size: ``E``, from 2 to ``H``.
        counts: How often each word occurs in the texts, ``[V]``: the more, the closer it is kept;
            default all alike.
    """
    width = whole.words.shape[1]
    if size == width:
        return Factors(
            words=whole.words,
            positions=whole.positions,
            token_types=whole.token_types,
            norm_weight=whole.norm_weight,
            norm_bias=whole.norm_bias,
            mapping=torch.eye(width),
            mapping_bias=torch.zeros(width),
        )
    return project_tables(
        whole, size, counts=torch.zeros(len(whole.words)) if counts is None else counts
    )


def project_tables(whole: Embeddings, size: int, *, counts: Tensor) -> Factors:
    """Keep the directions that the tables use most, by a singular value decomposition.

    A norm removes the mean over its axes, so one of the ``E`` axes is turned into that mean and
    left empty; the ``E - 1`` others are the leading right singular vectors of the words' sums.
    ``M`` and ``c`` are fitted by least squares, which makes up for what a shorter sum does to the
    norm. Of full rank, ``E = H``, all sums are as before.

    Args:
        whole: The trained tables.
        size: ``E``, from 2 to ``H``.
        counts: How often each word occurs in the texts, ``[V]``.
    """
    width = whole.words.shape[1]
    moment = torch.zeros(width, width, dtype=torch.float64)
    for weights, sums in _sums(whole, counts):
        moment += (weights * sums).T @ sums
    vectors = torch.linalg.eigh(moment).eigenvectors[:, width - size + 1 :]  # [H, E - 1]
    basis = torch.cat([vectors, vectors.new_zeros(width, 1)], dim=1) @ mean_reflection(size)
    words, positions, token_types = (
        _centred(table) @ basis for table in (whole.words, whole.positions, whole.token_types)
    )
    mapping = _fitted(whole, basis, counts)  # [E + 1, H]
    return Factors(
        words=words,
        positions=positions,
        token_types=token_types,
        norm_weight=torch.ones(size),
        norm_bias=torch.zeros(size),
        mapping=mapping[:-1].T,
        mapping_bias=mapping[-1],
    )


def _fitted(whole: Embeddings, basis: Tensor, counts: Tensor) -> Tensor:
    """Fit what follows the narrow norm to what followed the wide one, its constant last."""
    width, size = basis.shape
    gram = torch.zeros(size + 1, size + 1, dtype=torch.float64)
    target = torch.zeros(size + 1, width, dtype=torch.float64)
    scale, shift = (one.double().cpu() for one in (whole.norm_weight, whole.norm_bias))
    for weights, sums in _sums(whole, counts):
        narrow = layer_norm(sums @ basis, (size,), eps=whole.eps)  # [rows, E]
        inputs = torch.cat([narrow, narrow.new_ones(len(narrow), 1)], dim=1)
        gram += (weights * inputs).T @ inputs
        target += (weights * inputs).T @ layer_norm(sums, (width,), scale, shift, whole.eps)
    inverse: Tensor = torch.linalg.pinv(gram, rtol=_CUT, hermitian=True)
    return inverse @ target


def _sums(whole: Embeddings, counts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Give each word at some position, some at a time: weights ``[rows, 1]``, ``[rows, H]``.

    A word that occurs nowhere counts as if it occurred once.
    """
    positions, common = _centred(whole.positions), _centred(whole.token_types)[0]
    for start in range(0, len(whole.words), _ROWS):
        words = _centred(whole.words[start : start + _ROWS])
        places = torch.arange(start, start + len(words)) % len(positions)
        weights = counts[start : start + _ROWS].double().cpu()[:, None] + 1
        yield weights, words + positions[places] + common


def _centred(table: Tensor) -> Tensor:
    wide = table.detach().double().cpu()
    return wide - wide.mean(dim=-1, keepdim=True)
