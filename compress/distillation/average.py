"""The answers of several teachers as those of one: their probabilities averaged, as logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from compress.scoring.metrics import MULTI_LABEL
from compress.training.span_losses import by_question
from edgebert.errors import InputError


def average_answers(
    answers: Sequence[Tensor],
    weights: Sequence[float],
    *,
    task: str,
    problem_type: str | None = None,
    questions: Tensor | None = None,
) -> Tensor:
    """Average what teachers say of some rows (Hinton et al., 2015, section 1: an ensemble).

    The result is a teacher like any other: its logits, through the softmax, are the weighted mean
    of the probabilities of all. A temperature is applied to them afterwards.

    Args:
        answers: Logits of each teacher in one order of classes, ``[N, C]``; ``[N, 1]`` for a
            regression, whose scores are averaged, and for choices.
        weights: One a teacher, above 0, their sum 1.
        task: ``text-classification``, ``regression`` or ``multiple-choice``.
        problem_type: Of a text-classification: with many labels a text each has its own
            probability.
        questions: Of choices: the question of each row, from 0 without gaps, int64 ``[N]``.

    Returns:
        Float32, as ``answers``.

    Raises:
        InputError: Teachers give other numbers of rows or classes.
    """
    shapes = sorted({tuple(one.shape) for one in answers})
    if len(shapes) != 1:
        raise InputError(
            f"The teachers answer in the shapes {', '.join(map(str, shapes))}; all must have the "
            "same classes."
        )
    stacked = torch.stack([one.float() for one in answers])  # [T, N, C]
    shares = stacked.new_tensor(weights).log()[:, None, None]  # [T, 1, 1]
    if task == "regression":
        return (stacked * shares.exp()).sum(dim=0)
    if task == "multiple-choice":
        if questions is None:
            raise InputError("Choices need their questions: probabilities are among the choices.")
        choices = torch.stack([_log_choices(one, questions) for one in stacked])
        return torch.logsumexp(choices + shares, dim=0)
    if problem_type == MULTI_LABEL:
        yes = torch.logsumexp(F.logsigmoid(stacked) + shares, dim=0)
        return yes - torch.logsumexp(F.logsigmoid(-stacked) + shares, dim=0)
    return torch.logsumexp(F.log_softmax(stacked, dim=-1) + shares, dim=0)


def _log_choices(logits: Tensor, questions: Tensor) -> Tensor:
    """Give the log probability of each choice among those of its question, ``[N, 1]``."""
    scores, mask = by_question(logits, questions)  # [Q, choices]
    scores = F.log_softmax(scores.masked_fill(mask == 0, -torch.inf), dim=-1)
    return scores[mask.bool()][:, None]  # row by row, in the order of the choices
