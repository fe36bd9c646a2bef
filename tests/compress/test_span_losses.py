"""Losses of places, tags, scores and choices: by hand, and the promises that all losses make."""

from __future__ import annotations

import math

import pytest
import torch

from compress.training.span_losses import (
    by_question,
    pair_similarity_loss,
    place_hard_loss,
    place_soft_loss,
    score_loss,
    tag_loss,
)
from edgebert.errors import InputError

torch.set_num_threads(1)
LOG3 = math.log(3.0)


def test_place_soft_loss_is_the_divergence_over_the_candidates_alone():
    student = torch.tensor([[0.0, 0.0, 50.0]])  # 1/2, 1/2; the third is padding
    teacher = torch.tensor([[LOG3, 0.0, -50.0]])  # 3/4, 1/4
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    mask = torch.tensor([[1, 1, 0]])
    assert place_soft_loss(student, teacher, 1.0, mask=mask).item() == pytest.approx(expected)


def test_temperature_divides_both_places_logits_and_its_square_scales_the_loss():
    student, teacher, mask = torch.randn(2, 4), torch.randn(2, 4), torch.ones(2, 4)
    at_one = place_soft_loss(student / 3, teacher / 3, 1.0, mask=mask)
    torch.testing.assert_close(place_soft_loss(student, teacher, 3.0, mask=mask), 9 * at_one)


def test_place_hard_loss_is_the_log_of_the_true_candidate():
    logits = torch.tensor([[LOG3, 0.0, 99.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    expected = (-math.log(0.25) - math.log(1 / 3)) / 2
    found = place_hard_loss(logits, torch.tensor([1, 2]), mask=mask)
    assert found.item() == pytest.approx(expected)


def test_an_item_without_a_true_candidate_does_not_count():
    logits, mask = torch.tensor([[LOG3, 0.0], [0.0, 9.0]]), torch.ones(2, 2)
    found = place_hard_loss(logits, torch.tensor([1, -100]), mask=mask)
    assert found.item() == pytest.approx(-math.log(0.25))
    assert place_hard_loss(logits, torch.tensor([-100, -100]), mask=mask).item() == 0.0


def test_tag_loss_averages_over_a_texts_tagged_tokens_then_over_texts():
    logits = torch.tensor([[[LOG3, 0.0], [0.0, 0.0], [9.0, 0.0]], [[0.0, 0.0], [5.0, 5.0], [0, 7]]])
    labels = torch.tensor([[1, 0, -100], [0, -100, -100]])
    first, second = (-math.log(0.25) - math.log(0.5)) / 2, -math.log(0.5)
    assert tag_loss(logits, labels).item() == pytest.approx((first + second) / 2)


def test_a_text_without_a_tagged_token_does_not_count():
    logits, labels = torch.zeros(2, 2, 2), torch.tensor([[0, -100], [-100, -100]])
    assert tag_loss(logits, labels).item() == pytest.approx(math.log(2))
    assert tag_loss(logits, torch.full((2, 2), -100)).item() == 0.0


def test_a_class_weight_multiplies_the_terms_of_its_tag():
    logits, labels = torch.zeros(1, 2, 2), torch.tensor([[0, 1]])
    found = tag_loss(logits, labels, class_weights=torch.tensor([1.0, 3.0]))
    assert found.item() == pytest.approx((1 + 3) * math.log(2) / 2)


def test_score_loss_is_the_mean_of_the_squares_and_never_broadcasts():
    assert score_loss(torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 4.0])).item() == 2.5
    with pytest.raises(InputError, match=r"\[2\] and teacher \[1\]"):
        score_loss(torch.zeros(2, 1), torch.zeros(1))


def test_pair_similarity_loss_compares_the_cosine_of_neighbours_with_the_score():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [1.0, 0.0]])  # cosines 0 and 1
    found = pair_similarity_loss(vectors, torch.tensor([0.5, 1.0]))
    assert found.item() == pytest.approx(0.25 / 2)


def test_choices_of_a_question_come_beside_each_other():
    questions = torch.tensor([0, 0, 1, 2, 2, 2])
    scores, mask = by_question(torch.arange(1.0, 7.0)[:, None], questions)
    assert scores.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    assert mask.tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]


def test_gradients_reach_every_choice_and_no_padding():
    scores = torch.randn(3, 1, requires_grad=True)
    grouped, mask = by_question(scores, torch.tensor([0, 0, 1]))
    place_hard_loss(grouped, torch.tensor([1, 0]), mask=mask).backward()
    assert scores.grad.flatten()[:2].abs().min() > 0
    assert scores.grad.flatten()[2] == 0  # the only choice of its question is sure


def place_losses(student, teacher, labels, mask):
    return [
        place_soft_loss(student, teacher, 2.0, mask=mask),
        place_hard_loss(student, labels, mask=mask),
    ]


def test_longer_padding_with_any_content_changes_no_loss_of_places():
    student, teacher, labels = torch.randn(2, 3), torch.randn(2, 3), torch.tensor([0, 2])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    wide = [torch.cat([x, torch.full((2, 4), 60.0)], dim=1) for x in (student, teacher)]
    wide_mask = torch.cat([mask, torch.zeros(2, 4, dtype=torch.long)], dim=1)
    found = place_losses(*wide, labels, wide_mask)
    torch.testing.assert_close(found, place_losses(student, teacher, labels, mask))


def test_doubling_the_batch_changes_no_loss():
    student, teacher, labels = torch.randn(2, 3), torch.randn(2, 3), torch.tensor([0, 2])
    once = place_losses(student, teacher, labels, torch.ones(2, 3))
    twice = place_losses(
        student.repeat(2, 1), teacher.repeat(2, 1), labels.repeat(2), torch.ones(4, 3)
    )
    torch.testing.assert_close(twice, once)
    logits, tags = torch.randn(2, 3, 4), torch.tensor([[0, 3, -100], [1, -100, -100]])
    torch.testing.assert_close(
        tag_loss(logits.repeat(2, 1, 1), tags.repeat(2, 1)), tag_loss(logits, tags)
    )
    vectors, scores = torch.randn(4, 5), torch.rand(2)
    torch.testing.assert_close(
        pair_similarity_loss(vectors.repeat(2, 1), scores.repeat(2)),
        pair_similarity_loss(vectors, scores),
    )
