"""A student without layers: each token has one vector, whatever stands around it.

It is stored as a BERT of no layers, so that whatever opens, exports or quantizes a BERT takes it
too. A text's vector is the weighted mean of its tokens' vectors: the weights are in their lengths.

A BERT adds a position and a token type to each row, here zeros, and normalizes the sum. That
LayerNorm is made the identity, ``(x - mean(x)) / sqrt(var(x) + eps) * scale``: rows have a mean of
0, and ``sqrt(eps)`` and ``scale`` are one power of 2, beside whose square no variance counts in
FP32, so that division and product undo each other to the last bit. What a training adds to all
numbers of a row alike, the norm takes away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from compress.models.architecture import STATIC_NORM
from compress.models.basis import mean_reflection, second_moment
from compress.models.student import Architecture, BuiltStudent, same_parts, student_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Best of 3e-5 to 1e-2 on STS-B's dev: widths 64, 128 and 256, MiniLM as teacher.
COMMON = 5e-4  # a token of this share of the texts' tokens counts half as much as a rare one
SPECIAL_WEIGHT = 1e-3  # not 0: a text without a known token needs a direction
# Length of a row, root mean square. A step of AdamW moves a number by about the learning rate, so
# this says how far a step turns a row. With distill's own rate, two epochs, width 256 on STS-B's
# dev: 0.01 gave 0.808, 0.03 0.820, 0.1 0.834, 0.3 0.842, 1 0.829; before them 0.798.
ROW_LENGTH = 0.3
_CHUNK_ROWS = 16_384


def build_static(
    architecture: Architecture,
    teacher: PreTrainedModel,
    *,
    vectors: Tensor,
    counts: Tensor,
    special_ids: Collection[int],
    pad_id: int,
) -> BuiltStudent:
    """Make a static student of what its teacher says of each token alone.

    The vectors are centred on the mean of the texts' tokens, so that what all texts have in common
    doesn't count, cut to their principal components, one less than the width, as each row's mean is
    0, and weighted by how rare the token is: ``a / (a + p)`` (Arora et al., 2017).

    Args:
        architecture: Of no layers.
        teacher: Gives the vocabulary and the number of positions.
        vectors: The teacher's pooled vector of each token alone, float32 ``[V, H_teacher]``.
        counts: How often each token occurs in the texts, ``[V]``.
        special_ids: Tokens that aren't of a text.
        pad_id: Its row is zeros.

    Raises:
        InputError: The student is wider than its teacher.
    """
    config, width = student_config(architecture, teacher.config), architecture.hidden_size
    weights, mean = _weights(counts, special_ids), _mean(vectors, counts, special_ids)
    moment = second_moment(rows - mean for rows in _chunks(vectors))
    components = torch.linalg.eigh(moment).eigenvectors[:, 1 - width :].flip(1)  # [H_teacher, D-1]
    basis = components @ mean_reflection(width)[:-1]  # [H_teacher, D], each row's mean 0
    table = torch.cat([(rows - mean) @ basis for rows in _chunks(vectors)]) * weights[:, None]
    table[pad_id] = 0.0
    model = same_parts(teacher, config)
    _fill(model, table * (ROW_LENGTH / table.square().sum(dim=1).mean().sqrt()))
    return BuiltStudent(model.train(), "static", basis)


def _weights(counts: Tensor, special_ids: Collection[int]) -> Tensor:
    """Weigh each token, float64 ``[V]``."""
    weights = COMMON / (COMMON + _shares(counts, special_ids))
    weights[list(special_ids)] = SPECIAL_WEIGHT
    return weights


def _shares(counts: Tensor, special_ids: Collection[int]) -> Tensor:
    """Say which share each token has of the texts' tokens, specials left out, float64 ``[V]``."""
    real = counts.double()
    real[list(special_ids)] = 0.0
    return real / real.sum().clamp(min=1.0)


def _mean(vectors: Tensor, counts: Tensor, special_ids: Collection[int]) -> Tensor:
    """Average the vectors as a long text would, float64 ``[H_teacher]``."""
    shares = _shares(counts, special_ids) * _weights(counts, special_ids)
    if not shares.any():  # texts of unknown words alone
        shares = torch.ones_like(shares)
    parts = zip(torch.split(shares, _CHUNK_ROWS), _chunks(vectors), strict=True)
    total = torch.stack([part @ rows for part, rows in parts]).sum(dim=0)
    return total / shares.sum()


def _chunks(vectors: Tensor) -> Iterator[Tensor]:
    return (rows.double() for rows in torch.split(vectors, _CHUNK_ROWS))


@torch.no_grad()
def _fill(model: Any, table: Tensor) -> None:
    """Put the rows into a model without layers; they alone are trained."""
    embeddings = model.embeddings
    for part in (embeddings.position_embeddings, embeddings.token_type_embeddings):
        part.weight.zero_()
    embeddings.LayerNorm.weight.fill_(STATIC_NORM)
    embeddings.LayerNorm.bias.zero_()
    embeddings.word_embeddings.weight.copy_(table)
    model.requires_grad_(requires_grad=False)
    embeddings.word_embeddings.weight.requires_grad_(requires_grad=True)
