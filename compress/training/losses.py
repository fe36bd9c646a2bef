"""Distillation losses, each after its paper. Functions of tensors, never of a model.

The loss of a batch is the mean over its texts of each text's own loss, and a text's loss is the
mean over its real tokens. So padding never counts, and cutting or doubling a batch changes nothing.
The one exception is `similarity_matrix_loss`, whose items are the pairs within a batch.

Shapes: ``B`` batch, ``S`` sequence, ``H`` hidden size, ``C`` classes, ``A`` attention heads, ``d``
head width. Everything is computed in float32, whatever the inputs' dtype.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from edgebert.errors import InputError

IGNORED_LABEL = -100  # transformers' mark of a token without a label


def mean_over_texts(per_token: Tensor, mask: Tensor) -> Tensor:
    """Average over the counted tokens of each text, then over the texts.

    Args:
        per_token: One value a token, ``[B, S]``.
        mask: 1 where a token counts, ``[B, S]``. A text without any is left out of the mean; a
            batch without any gives 0.

    Returns:
        A scalar.
    """
    counted = mask.to(torch.float32)
    counts = counted.sum(dim=1)  # [B]
    per_text = (per_token.float() * counted).sum(dim=1) / counts.clamp(min=1.0)  # [B]
    texts: Tensor = (counts > 0).sum().clamp(min=1)
    return per_text.sum() / texts


def _mean_over_items(per_item: Tensor, attention_mask: Tensor | None) -> Tensor:
    if per_item.dim() == 1:
        return per_item.mean()  # one a text
    if attention_mask is None:
        raise InputError(
            f"A loss of token logits {list(per_item.shape)} needs the attention_mask: without it "
            "padding would count."
        )
    return mean_over_texts(per_item, attention_mask)


def soft_target_loss(
    student_logits: Tensor,
    teacher_logits: Tensor,
    temperature: float,
    *,
    attention_mask: Tensor | None = None,
) -> Tensor:
    """KL divergence from teacher to student at a raised temperature.

    The factor ``temperature ** 2`` keeps its gradients on the scale of a hard-label loss
    (Hinton et al., 2015).

    Args:
        student_logits: ``[B, C]``, or ``[B, S, C]`` for a task that labels tokens.
        teacher_logits: The same shape, without gradient.
        temperature: Divides both logits; above 0.
        attention_mask: ``[B, S]``, needed with ``[B, S, C]``.

    Raises:
        InputError: Shapes differ, or token logits came without their mask.
    """
    require_same_shape(student_logits, teacher_logits)
    student = F.log_softmax(student_logits.float() / temperature, dim=-1)
    teacher = F.log_softmax(teacher_logits.float() / temperature, dim=-1)
    per_item = F.kl_div(student, teacher, reduction="none", log_target=True).sum(dim=-1)
    return _mean_over_items(per_item, attention_mask) * temperature**2


def multi_label_soft_target_loss(
    student_logits: Tensor, teacher_logits: Tensor, temperature: float
) -> Tensor:
    """KL divergence of each label's own yes-or-no distribution, averaged over the labels.

    Args:
        student_logits: ``[B, C]``, one sigmoid a label.
        teacher_logits: ``[B, C]``, without gradient.
        temperature: Divides both logits; above 0.

    Raises:
        InputError: Shapes differ.
    """
    require_same_shape(student_logits, teacher_logits)
    student, teacher = student_logits.float() / temperature, teacher_logits.float() / temperature
    yes, no = F.logsigmoid(teacher), F.logsigmoid(-teacher)
    divergence = yes.exp() * (yes - F.logsigmoid(student))
    divergence = divergence + no.exp() * (no - F.logsigmoid(-student))  # [B, C]
    return divergence.mean(dim=-1).mean() * temperature**2


def hard_label_loss(
    student_logits: Tensor, labels: Tensor, *, class_weights: Tensor | None = None
) -> Tensor:
    """Cross-entropy with the true labels.

    A weight multiplies its class's term and the mean is over the texts: unlike torch's weighted
    mean, a text's part doesn't depend on which classes its batch-mates have. A text without a label
    is left out of the mean; a batch without any gives 0.

    Args:
        student_logits: ``[B, C]``.
        labels: int64 ``[B]`` for one label a text, -100 without one; or float ``[B, C]`` of 0 and 1
            for any number, NaN where it isn't known.
        class_weights: ``[C]``; with many labels a text it weights each label's term.
    """
    logits = student_logits.float()
    if labels.is_floating_point():
        require_same_shape(logits, labels)
        known = ~labels.isnan()
        terms = F.binary_cross_entropy_with_logits(
            logits, labels.nan_to_num().float(), reduction="none"
        )
        return mean_over_texts(terms if class_weights is None else terms * class_weights, known)
    known = labels != IGNORED_LABEL
    terms = F.cross_entropy(logits, labels, reduction="none", ignore_index=IGNORED_LABEL)
    if class_weights is not None:
        terms = terms * class_weights[labels.clamp(min=0)]
    return mean_over_texts(terms[:, None], known[:, None])


def masked_token_loss(student_logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the tokens that were masked out (Devlin et al., 2019).

    Args:
        student_logits: ``[B, S, C]`` with ``C`` the vocabulary size.
        labels: int64 ``[B, S]``, -100 where a token was not masked out.
    """
    per_token = F.cross_entropy(
        student_logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORED_LABEL
    )  # [B, S]
    return mean_over_texts(per_token, labels != IGNORED_LABEL)


def masked_mse(student: Tensor, teacher: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean squared difference of hidden states (TinyBERT, Jiao et al., 2020).

    Args:
        student: ``[B, S, H]``, projected to the teacher's width where that differs.
        teacher: ``[B, S, H]``, without gradient.
        attention_mask: ``[B, S]``.

    Raises:
        InputError: Shapes differ.
    """
    require_same_shape(student, teacher)
    difference = student.float() - teacher.float()
    return mean_over_texts(difference.square().mean(dim=-1), attention_mask)


def cosine_loss(student: Tensor, teacher: Tensor, attention_mask: Tensor) -> Tensor:
    """One minus the cosine of each token's hidden states (DistilBERT, Sanh et al., 2019).

    Args:
        student: ``[B, S, H]``, projected to the teacher's width where that differs.
        teacher: ``[B, S, H]``, without gradient.
        attention_mask: ``[B, S]``.

    Raises:
        InputError: Shapes differ.
    """
    require_same_shape(student, teacher)
    cosine = F.cosine_similarity(student.float(), teacher.float(), dim=-1)  # [B, S]
    return mean_over_texts(1.0 - cosine, attention_mask)


def attention_score_loss(
    student_query: Tensor,
    student_key: Tensor,
    teacher_query: Tensor,
    teacher_key: Tensor,
    attention_mask: Tensor,
    *,
    num_heads: int,
) -> Tensor:
    """Mean squared difference of the attention scores before softmax (TinyBERT, Jiao et al., 2020).

    Padding is left out as a query (row) and as a key (column); a text's loss is the mean over its
    heads and its real rows and columns.

    Args:
        student_query: ``[B, S, A * d]``; ``d`` may differ from the teacher's.
        student_key: As ``student_query``.
        teacher_query: ``[B, S, A * d]``, without gradient.
        teacher_key: As ``teacher_query``.
        attention_mask: ``[B, S]``.
        num_heads: ``A`` of both.
    """
    student = scaled_products(student_query, student_key, num_heads)
    teacher = scaled_products(teacher_query, teacher_key, num_heads)
    squares = (student - teacher).square().mean(dim=1)  # [B, S, S]
    columns = attention_mask.to(torch.float32)
    per_row = (squares * columns[:, None, :]).sum(dim=-1) / columns.sum(dim=-1)[:, None].clamp(1.0)
    return mean_over_texts(per_row, attention_mask)


def relation_loss(
    student: Tensor, teacher: Tensor, attention_mask: Tensor, *, num_relation_heads: int
) -> Tensor:
    """KL divergence between self-attention relations (MiniLMv2, Wang et al., 2021).

    A relation is the softmax over a text's real tokens of scaled products among queries, among keys
    or among values. Neither width nor head count of student and teacher must agree: both are cut
    anew into ``num_relation_heads``.

    Args:
        student: Queries, keys or values, ``[B, S, H_student]``.
        teacher: The same kind, ``[B, S, H_teacher]``, without gradient.
        attention_mask: ``[B, S]``.
        num_relation_heads: Divides both widths.
    """
    padding = attention_mask[:, None, None, :] == 0  # [B, 1, 1, S]
    lowest = torch.finfo(torch.float32).min
    log_student, log_teacher = (
        F.log_softmax(scaled_products(x, x, num_relation_heads).masked_fill(padding, lowest), -1)
        for x in (student, teacher)
    )  # [B, A, S, S]
    divergence = (log_teacher.exp() * (log_teacher - log_student)).masked_fill(padding, 0.0)
    return mean_over_texts(divergence.sum(dim=-1).mean(dim=1), attention_mask)


def scaled_products(rows: Tensor, columns: Tensor, num_heads: int) -> Tensor:
    """Products of every row with every column within each head, over ``sqrt(d)``.

    Args:
        rows: ``[B, S, A * d]``.
        columns: ``[B, S, A * d]``.
        num_heads: ``A``.

    Returns:
        Float32 ``[B, A, S, S]``.

    Raises:
        InputError: ``num_heads`` doesn't divide the width.
    """
    width = rows.shape[-1]
    if num_heads < 1 or width % num_heads:
        raise InputError(f"{num_heads} heads don't divide the width {width}; give a divisor of it.")
    split = (*rows.shape[:2], num_heads, width // num_heads)
    left = rows.float().reshape(split).transpose(1, 2)  # [B, A, S, d]
    right = columns.float().reshape(split).permute(0, 2, 3, 1)  # [B, A, d, S]
    return (left @ right) / math.sqrt(width // num_heads)


def vector_cosine_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """One minus the cosine of each text's pooled vectors, both ``[B, H]``; mean over the texts."""
    require_same_shape(student, teacher)
    return (1.0 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).mean()


def similarity_matrix_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of the cosines between the texts of a batch.

    Mean over the ``B * (B - 1)`` ordered pairs of different texts; 0 for a single text. The widths
    may differ, as only similarities are compared (Tung and Mori, 2019, with cosines).

    Args:
        student: Pooled vectors, ``[B, H_student]``.
        teacher: Pooled vectors, ``[B, H_teacher]``, without gradient.
    """
    left, right = F.normalize(student.float(), dim=-1), F.normalize(teacher.float(), dim=-1)
    squares = (left @ left.T - right @ right.T).square()  # [B, B]; the diagonal is left out
    pairs = max(len(left) * (len(left) - 1), 1)
    return (squares.sum() - squares.diagonal().sum()) / pairs


def require_same_shape(student: Tensor, teacher: Tensor) -> None:
    """Raise an `InputError` that names both shapes when they differ."""
    if student.shape != teacher.shape:
        raise InputError(
            f"Student {list(student.shape)} and teacher {list(teacher.shape)} must have one shape; "
            "a wider or narrower student needs a projection, other classes an alignment."
        )
