"""Loss terms that look inside a model: hidden states, attention, vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from compress.models.capture import Features, Pooling, Wanted
from compress.training.losses import (
    attention_score_loss,
    cosine_loss,
    masked_mse,
    relation_loss,
    similarity_matrix_loss,
    vector_cosine_loss,
)
from compress.training.phase import Loss, Term
from compress.training.span_losses import pair_similarity_loss
from compress.training.target_terms import labels_of
from edgebert.errors import InputError

TokenLoss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
Kind = Literal["query", "key", "value"]


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


@dataclass(frozen=True, kw_only=True)
class VectorHeads:
    """How student and teacher make one vector of a text.

    Attributes:
        pooling: Of both, unless the student's is another.
        student_pooling: Of the student, where it is another than the teacher's.
        student_layers: How many of the student's last layers are averaged.
        teacher_layers: As many of the teacher's, or more.
        student_dense: What comes after the student's pooling.
        teacher_dense: What comes after the teacher's; it is not trained.
    """

    pooling: Pooling
    student_pooling: Pooling | None = None
    student_layers: int = 1
    teacher_layers: int = 1
    student_dense: nn.Module = field(default_factory=nn.Identity)
    teacher_dense: nn.Module = field(default_factory=nn.Identity)

    @property
    def student_wanted(self) -> Wanted:
        """What to capture of the student."""
        pooling = self.student_pooling or self.pooling
        return Wanted(logits=False, pooled=pooling, pooling_layers=self.student_layers)

    @property
    def teacher_wanted(self) -> Wanted:
        """What to capture of the teacher."""
        return Wanted(logits=False, pooled=self.pooling, pooling_layers=self.teacher_layers)

    def vectors(self, student: Features, teacher: Features) -> tuple[Tensor, Tensor]:
        """Give both models' vectors ``[B, D]``; their widths may differ."""
        with torch.no_grad():
            theirs: Tensor = self.teacher_dense(_pooled(teacher).float())
        return self.student_dense(_pooled(student).float()), theirs


def pooled_term(heads: VectorHeads, projection: nn.Module, *, weight: float) -> Term:
    """Compare the directions of vectors, the student's projected to the teacher's width."""

    def loss(student: Features, teacher: Features, _batch: Mapping[str, Tensor]) -> Tensor:
        ours, theirs = heads.vectors(student, teacher)
        return vector_cosine_loss(projection(ours), theirs)

    return _vector_term(loss, heads, weight)


def similarity_term(heads: VectorHeads, *, weight: float) -> Term:
    """Compare the cosines among the texts of a batch; of any two widths, nothing projected."""

    def loss(student: Features, teacher: Features, _batch: Mapping[str, Tensor]) -> Tensor:
        return similarity_matrix_loss(*heads.vectors(student, teacher))

    return _vector_term(loss, heads, weight)


def pair_term(heads: VectorHeads) -> Term:
    """Compare the cosine of each pair of neighbouring texts with its score, ``batch["labels"]``."""

    def loss(student: Features, _teacher: Features, batch: Mapping[str, Tensor]) -> Tensor:
        vectors = heads.student_dense(_pooled(student).float())
        return pair_similarity_loss(vectors, labels_of(batch))

    return Term(loss=loss, student_wanted=heads.student_wanted)


def _vector_term(loss: Loss, heads: VectorHeads, weight: float) -> Term:
    return Term(
        loss=loss,
        weight=weight,
        student_wanted=heads.student_wanted,
        teacher_wanted=heads.teacher_wanted,
    )


def last_hidden_term(layers: tuple[int, int], projection: nn.Module, *, weight: float) -> Term:
    """Compare the directions of the last hidden states (DistilBERT's cosine loss)."""
    return hidden_term((layers,), projection, weight=weight, loss=cosine_loss)


def _mask(batch: Mapping[str, Tensor]) -> Tensor:
    return batch["attention_mask"]


def _pooled(features: Features) -> Tensor:
    if features.pooled is None:
        raise InputError("The features have no vectors; capture what the phase's wanted says.")
    return features.pooled
