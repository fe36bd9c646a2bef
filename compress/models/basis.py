"""The subspace of a teacher's hidden space that a narrower student lives in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from compress.models.capture import Wanted, forward_features
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@torch.no_grad()
def find_basis(
    teacher: PreTrainedModel, hidden_size: int, calibration: Sequence[Mapping[str, Tensor]] = ()
) -> tuple[Tensor, Tensor]:
    """Find the subspace of the teacher's hidden space that is used most.

    Args:
        teacher: In eval mode.
        hidden_size: Of the student, at most the teacher's; the same gives the identity.
        calibration: Batches of texts; without them the word embeddings stand for hidden states.

    Returns:
        ``P``, float64 ``[H_teacher, H_student]``, and the hidden states' second moment, float64
        ``[H_teacher, H_teacher]``.
    """
    moment = second_moment(_hidden_states(teacher, calibration))
    if hidden_size == len(moment):
        return torch.eye(hidden_size, dtype=torch.float64), moment
    vectors = torch.linalg.eigh(moment).eigenvectors  # columns, least energy first
    basis = vectors[:, -hidden_size:].flip(1)  # [H_teacher, H_student], most energy first
    return basis @ mean_reflection(hidden_size), moment


def _hidden_states(
    teacher: PreTrainedModel, calibration: Sequence[Mapping[str, Tensor]]
) -> Iterable[Tensor]:
    if not calibration:
        yield _embedding_states(teacher)
        return
    layers = tuple(range(int(teacher.config.num_hidden_layers) + 1))
    for batch in calibration:
        features = forward_features(teacher, batch, Wanted(hidden_states=layers, logits=False))
        for hidden in features.hidden.values():
            yield hidden[batch["attention_mask"].bool()]  # [tokens, H]


def _embedding_states(teacher: PreTrainedModel) -> Tensor:
    """Give the embedding output of each word of the vocabulary as a first token, ``[V, H]``."""
    encoder: Any = teacher.base_model  # families have no common type with `embeddings`
    rows = torch.arange(int(teacher.config.vocab_size), device=teacher.device)[:, None]  # [V, 1]
    states: Tensor = encoder.embeddings(input_ids=rows)[:, 0]
    widen = dict(encoder.named_modules())
    for name in ("embeddings_project", "encoder.embedding_hidden_mapping_in"):  # ELECTRA, ALBERT
        if name in widen:
            states = widen[name](states)
    return states


def second_moment(states: Iterable[Tensor]) -> Tensor:
    """Average the outer products of vectors ``[rows, H]``, float64 ``[H, H]``.

    Raises:
        ModelError: There is none.
    """
    total, count = None, 0
    for rows in states:
        wide = rows.double().cpu()
        product = wide.T @ wide
        total = product if total is None else total + product
        count += len(wide)
    if total is None or count == 0:
        raise ModelError("Calibration texts without a token give no hidden states; add texts.")
    return total / count


def mean_reflection(size: int) -> Tensor:
    """Turn the last axis into the direction that LayerNorm removes: all axes alike.

    A Householder reflection: symmetric and its own inverse, ``[size, size]``.
    """
    last = torch.zeros(size, dtype=torch.float64)
    last[-1] = 1.0
    normal = last - torch.full((size,), 1 / math.sqrt(size), dtype=torch.float64)
    eye = torch.eye(size, dtype=torch.float64)
    return eye - 2 * torch.outer(normal, normal) / normal.dot(normal) if size > 1 else eye
