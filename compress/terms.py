"""Loss terms: a function of `compress.losses` bound to layers, weights and projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from compress.capture import Features, Pooling, Wanted
from compress.losses import (
    attention_score_loss,
    cosine_loss,
    hard_label_loss,
    masked_mse,
    masked_token_loss,
    multi_label_soft_target_loss,
    relation_loss,
    similarity_matrix_loss,
    soft_target_loss,
    vector_cosine_loss,
)
from compress.phase import LOGITS, Term
from edgebert.errors import InputError

TokenLoss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
Kind = Literal["query", "key", "value"]


def soft_term(temperature: float, *, weight: float, multi_label: bool = False) -> Term:
    """Compare logits: of texts ``[B, C]`` or of tokens ``[B, S, C]``."""

    def loss(student: Features, teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        ours, theirs = _logits(student), _logits(teacher)
        if multi_label:
            return multi_label_soft_target_loss(ours, theirs, temperature)
        mask = batch["attention_mask"] if ours.dim() == 3 else None
        return soft_target_loss(ours, theirs, temperature, attention_mask=mask)

    return Term(loss=loss, weight=weight, student_wanted=LOGITS, teacher_wanted=LOGITS)


def hard_term(class_weights: tuple[float, ...] | None, *, weight: float) -> Term:
    """Compare the student's logits with true labels."""

    def loss(student: Features, _teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        logits = _logits(student)
        factors = None if class_weights is None else logits.new_tensor(class_weights)
        return hard_label_loss(logits, _labels(batch), class_weights=factors)

    return Term(loss=loss, weight=weight, student_wanted=LOGITS)


def hidden_token_term(*, weight: float) -> Term:
    """Compare the student's token logits with the tokens that were hidden from it."""

    def loss(student: Features, _teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        return masked_token_loss(_logits(student), _labels(batch))

    return Term(loss=loss, weight=weight, student_wanted=LOGITS)


def hidden_term(
    pairs: tuple[tuple[int, int], ...],
    projection: nn.Module,
    *,
    weight: float,
    loss: TokenLoss = masked_mse,
) -> Term:
    """Compare hidden states of pairs of layers; the sum over the pairs.

    Args:
        pairs: Student layer and teacher layer; 0 is the embedding output.
        projection: From the student's width to the teacher's.
        weight: Of the term.
        loss: `masked_mse` or `cosine_loss`.
    """

    def total(student: Features, teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        parts = [
            loss(projection(student.hidden[own].float()), teacher.hidden[its], _mask(batch))
            for own, its in pairs
        ]
        return torch.stack(parts).sum()

    own, its = zip(*pairs, strict=True)
    return Term(
        loss=total,
        weight=weight,
        student_wanted=Wanted(hidden_states=own, logits=False),
        teacher_wanted=Wanted(hidden_states=its, logits=False),
    )


def attention_term(pairs: tuple[tuple[int, int], ...], *, weight: float) -> Term:
    """Compare attention scores of pairs of student and teacher layer; the sum over the pairs."""

    def loss(student: Features, teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        parts = [
            attention_score_loss(
                student.query[own],
                student.key[own],
                teacher.query[its],
                teacher.key[its],
                _mask(batch),
                num_heads=student.num_heads,
            )
            for own, its in pairs
        ]
        return torch.stack(parts).sum()

    own, its = zip(*pairs, strict=True)
    return Term(
        loss=loss,
        weight=weight,
        student_wanted=Wanted(relations=own, logits=False),
        teacher_wanted=Wanted(relations=its, logits=False),
    )


def relation_term(kind: Kind, layers: tuple[int, int], *, heads: int) -> Term:
    """Compare the relations among queries, keys or values of one student and one teacher layer."""
    own, its = layers

    def loss(student: Features, teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        ours, theirs = getattr(student, kind)[own], getattr(teacher, kind)[its]
        return relation_loss(ours, theirs, _mask(batch), num_relation_heads=heads)

    return Term(
        loss=loss,
        student_wanted=Wanted(relations=(own,), logits=False),
        teacher_wanted=Wanted(relations=(its,), logits=False),
    )


def pooled_term(pooling: Pooling, projection: nn.Module, *, weight: float) -> Term:
    """Compare the directions of pooled vectors, the student's projected to the teacher's width."""

    def loss(student: Features, teacher: Features, _batch: Mapping[str, Tensor]) -> Tensor:
        return vector_cosine_loss(projection(_pooled(student).float()), _pooled(teacher))

    wanted = Wanted(logits=False, pooled=pooling)
    return Term(loss=loss, weight=weight, student_wanted=wanted, teacher_wanted=wanted)


def similarity_term(pooling: Pooling, *, weight: float) -> Term:
    """Compare the cosines among the texts of a batch; of any two widths, nothing projected."""

    def loss(student: Features, teacher: Features, _batch: Mapping[str, Tensor]) -> Tensor:
        return similarity_matrix_loss(_pooled(student), _pooled(teacher))

    wanted = Wanted(logits=False, pooled=pooling)
    return Term(loss=loss, weight=weight, student_wanted=wanted, teacher_wanted=wanted)


def last_hidden_term(layers: tuple[int, int], projection: nn.Module, *, weight: float) -> Term:
    """Compare the directions of the last hidden states (DistilBERT's cosine loss)."""
    return hidden_term((layers,), projection, weight=weight, loss=cosine_loss)


def _mask(batch: Mapping[str, Tensor]) -> Tensor:
    return batch["attention_mask"]


def _labels(batch: Mapping[str, Tensor]) -> Tensor:
    if "labels" not in batch:
        raise InputError(
            "A loss on true labels needs batch['labels']; label the texts, or set hard_weight to 0."
        )
    return batch["labels"]


def _logits(features: Features) -> Tensor:
    return _there(features.logits, "logits")


def _pooled(features: Features) -> Tensor:
    return _there(features.pooled, "pooled")


def _there(tensor: Tensor | None, name: str) -> Tensor:
    if tensor is None:
        raise InputError(f"The features have no {name}; capture what the phase's wanted says.")
    return tensor
