"""The average of several teachers' answers, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from compress.distillation.average import average_answers
from edgebert.errors import InputError


def logits_of(*probabilities):
    return torch.tensor([[math.log(p) for p in row] for row in probabilities])


def test_classes_are_averaged_as_probabilities():
    answers = [logits_of((0.9, 0.1), (0.5, 0.5)), logits_of((0.3, 0.7), (0.2, 0.8)) + 4.0]
    found = average_answers(answers, (0.75, 0.25), task="text-classification")
    expected = torch.tensor([[0.75, 0.25], [0.425, 0.575]])
    torch.testing.assert_close(found.softmax(dim=-1), expected)


def test_each_of_many_labels_is_averaged_as_its_own_probability():
    def logit(p):
        return math.log(p / (1 - p))

    answers = [torch.tensor([[logit(0.9), logit(0.2)]]), torch.tensor([[logit(0.5), logit(0.4)]])]
    found = average_answers(
        answers,
        (0.5, 0.5),
        task="text-classification",
        problem_type="multi_label_classification",
    )
    torch.testing.assert_close(found.sigmoid(), torch.tensor([[0.7, 0.3]]))


def test_scores_are_averaged_as_they_are():
    answers = [torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [1.0]])]
    found = average_answers(answers, (0.75, 0.25), task="regression")
    torch.testing.assert_close(found, torch.tensor([[1.25], [4.0]]))


def test_choices_are_averaged_as_probabilities_among_those_of_their_question():
    questions = torch.tensor([0, 0, 1, 1, 1])
    first = logits_of((0.9, 0.1, 0.2, 0.2, 0.6)).T
    second = logits_of((0.5, 0.5, 0.6, 0.2, 0.2)).T + torch.tensor([[3.0]] * 2 + [[-2.0]] * 3)
    found = average_answers(
        [first, second], (0.5, 0.5), task="multiple-choice", questions=questions
    )
    expected = torch.tensor([0.7, 0.3, 0.4, 0.2, 0.4])
    torch.testing.assert_close(found[:, 0].exp(), expected)


def test_other_numbers_of_classes_are_refused():
    with pytest.raises(InputError, match=r"\(4, 2\), \(4, 3\)"):
        average_answers(
            [torch.zeros(4, 2), torch.zeros(4, 3)], (0.5, 0.5), task="text-classification"
        )
