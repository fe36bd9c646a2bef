"""Losses of outputs other than classes: a place among places, a tag a token, a score.

As in `compress.training.losses`: a batch's loss is the mean over its items, padding never
counts, and doubling a batch changes nothing. ``C`` candidates are tokens that an answer may start
at, or the choices of a question.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from compress.training.losses import IGNORED_LABEL, mean_over_texts, require_same_shape
from edgebert.errors import InputError


def place_soft_loss(
    student_logits: Tensor, teacher_logits: Tensor, temperature: float, *, mask: Tensor
) -> Tensor:
    """KL divergence from teacher to student over the candidates of each item.

    Scaled by ``temperature ** 2`` as in `compress.training.losses.soft_target_loss`.

    Args:
        student_logits: ``[N, C]``.
        teacher_logits: ``[N, C]``, without gradient.
        temperature: Divides both logits; above 0.
        mask: 1 for a candidate, 0 for padding, ``[N, C]``.

    Returns:
        A scalar, the mean over the ``N`` items.

    Raises:
        InputError: Shapes differ.
    """
    require_same_shape(student_logits, teacher_logits)
    student = F.log_softmax(_candidates(student_logits.float() / temperature, mask), dim=-1)
    teacher = F.log_softmax(_candidates(teacher_logits.float() / temperature, mask), dim=-1)
    divergence = (teacher.exp() * (teacher - student)).masked_fill(mask == 0, 0.0)
    return divergence.sum(dim=-1).mean() * temperature**2


def place_hard_loss(student_logits: Tensor, labels: Tensor, *, mask: Tensor) -> Tensor:
    """Cross-entropy with the true candidate, averaged over the items that have one.

    Args:
        student_logits: ``[N, C]``.
        labels: Place of the true candidate, int64 ``[N]``; -100 where none is known.
        mask: 1 for a candidate, 0 for padding, ``[N, C]``.
    """
    total = F.cross_entropy(
        _candidates(student_logits, mask), labels, reduction="sum", ignore_index=IGNORED_LABEL
    )
    return total / (labels != IGNORED_LABEL).sum().clamp(min=1)


def _candidates(logits: Tensor, mask: Tensor) -> Tensor:
    return logits.float().masked_fill(mask == 0, torch.finfo(torch.float32).min)


def tag_loss(
    student_logits: Tensor, labels: Tensor, *, class_weights: Tensor | None = None
) -> Tensor:
    """Cross-entropy of the tags: over a text's labelled tokens, then over the texts that have any.

    Args:
        student_logits: ``[B, S, C]``.
        labels: int64 ``[B, S]``, -100 for a token that has no tag of its own.
        class_weights: ``[C]``; multiplies its tag's terms, as in
            `compress.training.losses.hard_label_loss`.
    """
    tagged = labels != IGNORED_LABEL
    per_token = F.cross_entropy(
        student_logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORED_LABEL
    )  # [B, S]
    if class_weights is not None:
        per_token = per_token * class_weights[labels.clamp(min=0)]
    return mean_over_texts(per_token, tagged)


def score_loss(student_scores: Tensor, scores: Tensor) -> Tensor:
    """Mean squared difference of scores, the teacher's or the true ones.

    Args:
        student_scores: ``[B, 1]`` or ``[B]``.
        scores: As many numbers, without gradient.

    Raises:
        InputError: There are more or fewer.
    """
    ours, theirs = student_scores.float().flatten(), scores.float().flatten()
    require_same_shape(ours, theirs)
    return F.mse_loss(ours, theirs)


def pair_similarity_loss(vectors: Tensor, scores: Tensor) -> Tensor:
    """Mean squared difference of a pair's cosine and its score (Reimers and Gurevych, 2019).

    Args:
        vectors: The two texts of a pair behind each other, ``[2 * B, D]``.
        scores: From 0 to 1, or from -1 on where texts can be opposites, ``[B]``.
    """
    first, second = vectors[0::2].float(), vectors[1::2].float()
    return score_loss(F.cosine_similarity(first, second, dim=-1), scores)


def by_question(scores: Tensor, questions: Tensor) -> tuple[Tensor, Tensor]:
    """Put the scores of choices beside each other, a question a row.

    Args:
        scores: One a choice, ``[B]`` or ``[B, 1]``, a question's beside each other.
        questions: Question of each choice, counted from 0 without gaps, int64 ``[B]``.

    Returns:
        Scores ``[Q, C]`` with 0 where a question has fewer choices than the one with most, and a
        mask ``[Q, C]`` of 1 for a choice.

    Raises:
        InputError: There is no choice.
    """
    if not questions.numel():
        raise InputError("A batch needs at least one choice.")
    counts = torch.bincount(questions)  # [Q]
    first = torch.cumsum(counts, dim=0) - counts
    place = torch.arange(len(questions), device=questions.device) - first[questions]
    shape = (len(counts), int(counts.max()))
    grouped = (
        scores.float().new_zeros(shape).index_put((questions, place), scores.float().flatten())
    )
    mask = torch.arange(shape[1], device=counts.device) < counts[:, None]
    return grouped, mask.long()
