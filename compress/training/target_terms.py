"""What a task's output learns from: the teacher's answers (soft) and the true ones (hard)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from compress.models.capture import Features
from compress.training.losses import (
    hard_label_loss,
    masked_token_loss,
    multi_label_soft_target_loss,
    require_same_shape,
    soft_target_loss,
)
from compress.training.phase import LOGITS, Term
from compress.training.span_losses import (
    by_question,
    place_hard_loss,
    place_soft_loss,
    score_loss,
    tag_loss,
)
from edgebert.errors import InputError

Batch: TypeAlias = Mapping[str, Tensor]
Soft: TypeAlias = Callable[[Tensor, Tensor, float, Batch], Tensor]
Hard: TypeAlias = Callable[[Tensor, Tensor, Batch, "Tensor | None"], Tensor]


def soft_term(task: str, temperature: float, *, weight: float, multi_label: bool = False) -> Term:
    """Compare the student's logits with the teacher's, as the task reads them.

    Args:
        task: Any but ``feature-extraction``.
        temperature: Divides both logits; a regression has none.
        weight: Of the term.
        multi_label: Whether a text may have any number of classes.
    """
    loss_of = _soft_labels if multi_label else SOFT[task]

    def loss(student: Features, teacher: Features, batch: Batch) -> Tensor:
        return loss_of(logits_of(student), logits_of(teacher), temperature, batch)

    return Term(loss=loss, weight=weight, student_wanted=LOGITS, teacher_wanted=LOGITS)


def hard_term(task: str, class_weights: tuple[float, ...] | None, *, weight: float = 1.0) -> Term:
    """Compare the student's logits with true labels, ``batch["labels"]``, where there are any.

    Args:
        task: Any but ``feature-extraction``.
        class_weights: One a class or tag, or None.
        weight: Of the term.
    """

    def loss(student: Features, _teacher: Features, batch: Batch) -> Tensor:
        logits = logits_of(student)
        factors = None if class_weights is None else logits.new_tensor(class_weights)
        return HARD[task](logits, labels_of(batch), batch, factors)

    return Term(loss=loss, weight=weight, student_wanted=LOGITS)


def _soft_classes(student: Tensor, teacher: Tensor, temperature: float, _: Batch) -> Tensor:
    return soft_target_loss(student, teacher, temperature)


def _soft_labels(student: Tensor, teacher: Tensor, temperature: float, _: Batch) -> Tensor:
    return multi_label_soft_target_loss(student, teacher, temperature)


def _soft_tokens(student: Tensor, teacher: Tensor, temperature: float, batch: Batch) -> Tensor:
    return soft_target_loss(student, teacher, temperature, attention_mask=batch["attention_mask"])


def _soft_scores(student: Tensor, teacher: Tensor, _temperature: float, _: Batch) -> Tensor:
    return score_loss(student, teacher)


def _soft_places(student: Tensor, teacher: Tensor, temperature: float, batch: Batch) -> Tensor:
    mask = batch["attention_mask"].repeat_interleave(2, dim=0)  # [B * 2, S]
    return place_soft_loss(_ends(student), _ends(teacher), temperature, mask=mask)


def _soft_choices(student: Tensor, teacher: Tensor, temperature: float, batch: Batch) -> Tensor:
    ours, mask = by_question(student, questions_of(batch))
    theirs, _ = by_question(teacher, questions_of(batch))
    return place_soft_loss(ours, theirs, temperature, mask=mask)


def _hard_classes(student: Tensor, labels: Tensor, _: Batch, weights: Tensor | None) -> Tensor:
    return hard_label_loss(student, labels, class_weights=weights)


def _hard_scores(student: Tensor, labels: Tensor, _: Batch, _weights: Tensor | None) -> Tensor:
    known = ~labels.isnan()  # a made text has no true score: it is left out of the mean
    ours = student.float().flatten()
    require_same_shape(ours, labels)
    filled = torch.where(known, labels, ours.detach())
    return score_loss(ours, filled) * (labels.numel() / known.sum().clamp(min=1))


def _hard_tags(student: Tensor, labels: Tensor, _: Batch, weights: Tensor | None) -> Tensor:
    return tag_loss(student, labels, class_weights=weights)


def _hard_places(student: Tensor, labels: Tensor, batch: Batch, _: Tensor | None) -> Tensor:
    mask = batch["attention_mask"].repeat_interleave(2, dim=0)
    return place_hard_loss(_ends(student), labels.flatten(), mask=mask)


def _hard_choices(student: Tensor, labels: Tensor, batch: Batch, _: Tensor | None) -> Tensor:
    scores, mask = by_question(student, questions_of(batch))
    return place_hard_loss(scores, labels, mask=mask)


def _hard_masks(student: Tensor, labels: Tensor, _: Batch, _weights: Tensor | None) -> Tensor:
    return masked_token_loss(student, labels)


SOFT: dict[str, Soft] = {
    "text-classification": _soft_classes,
    "regression": _soft_scores,
    "token-classification": _soft_tokens,
    "question-answering": _soft_places,
    "multiple-choice": _soft_choices,
    "fill-mask": _soft_tokens,
}
HARD: dict[str, Hard] = {
    "text-classification": _hard_classes,
    "regression": _hard_scores,
    "token-classification": _hard_tags,
    "question-answering": _hard_places,
    "multiple-choice": _hard_choices,
    "fill-mask": _hard_masks,
}


def _ends(logits: Tensor) -> Tensor:
    """Turn start and end logits ``[B, S, 2]`` into two items a text, ``[B * 2, S]``."""
    return logits.transpose(1, 2).flatten(0, 1)


def labels_of(batch: Batch) -> Tensor:
    """Give a batch's true labels, or say how they can be had."""
    if "labels" not in batch:
        raise InputError(
            "A loss on true labels needs batch['labels']; label the texts, or set hard_weight to 0."
        )
    return batch["labels"]


def questions_of(batch: Batch) -> Tensor:
    """Give the question of each row of a batch of choices."""
    if "questions" not in batch:
        raise InputError("A loss over choices needs batch['questions'], the question of each row.")
    return batch["questions"]


def logits_of(features: Features) -> Tensor:
    """Give the logits, or say that none were captured."""
    if features.logits is None:
        raise InputError("The features have no logits; capture what the phase's wanted says.")
    return features.logits
