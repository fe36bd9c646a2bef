"""Each loss against a hand calculation, and the two promises that all of them make."""

from __future__ import annotations

import math

import pytest
import torch

from compress.training.losses import (
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
from edgebert.errors import InputError

torch.set_num_threads(1)

# Each takes student [B, S, 8], teacher [B, S, 8] and the mask [B, S].
TOKEN_LOSSES = {
    "masked_mse": masked_mse,
    "cosine": cosine_loss,
    "soft_target": lambda s, t, m: soft_target_loss(s, t, 2.0, attention_mask=m),
    "attention": lambda s, t, m: attention_score_loss(s, s * 2, t, t - 1, m, num_heads=2),
    "relation": lambda s, t, m: relation_loss(s, t, m, num_relation_heads=4),
    "masked_token": lambda s, t, m: masked_token_loss(s, t.argmax(-1).masked_fill(m == 0, -100)),
}


@pytest.fixture
def ragged():
    """Two texts of 3 and 5 tokens, padded to 5."""
    generator = torch.Generator().manual_seed(0)
    student, teacher = (torch.randn(2, 5, 8, generator=generator) for _ in range(2))
    return student, teacher, torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


@pytest.mark.parametrize("name", TOKEN_LOSSES)
def test_longer_padding_with_any_content_changes_no_loss(name, ragged):
    loss, (student, teacher, mask) = TOKEN_LOSSES[name], ragged
    wide = [torch.cat([x, torch.full((2, 7, 8), 50.0 * i)], 1) for i, x in enumerate(ragged[:2])]
    wide[0][0, 3:], wide[1][0, 3:] = -30.0, 30.0
    wide_mask = torch.cat([mask, torch.zeros(2, 7, dtype=torch.int64)], 1)
    torch.testing.assert_close(loss(*wide, wide_mask), loss(student, teacher, mask))


@pytest.mark.parametrize("name", TOKEN_LOSSES)
def test_loss_of_a_batch_is_the_mean_over_its_texts_alone(name, ragged):
    loss, (student, teacher, mask) = TOKEN_LOSSES[name], ragged
    alone = [
        loss(student[i : i + 1, :n], teacher[i : i + 1, :n], mask[i : i + 1, :n])
        for i, n in enumerate((3, 5))
    ]
    torch.testing.assert_close(loss(student, teacher, mask), torch.stack(alone).mean())


@pytest.mark.parametrize("name", TOKEN_LOSSES)
def test_no_gradient_reaches_padding(name, ragged):
    loss, (student, teacher, mask) = TOKEN_LOSSES[name], ragged
    student.requires_grad_()
    loss(student, teacher, mask).backward()
    assert student.grad[0, 3:].abs().max() == 0
    assert student.grad[0, :3].abs().max() > 0
    assert student.grad.isfinite().all()


def test_soft_target_loss_matches_a_hand_calculation():
    student = torch.tensor([[0.0, 0.0]])  # softmax at T=1: 1/2, 1/2
    teacher = torch.tensor([[math.log(3.0), 0.0]])  # softmax at T=1: 3/4, 1/4
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert soft_target_loss(student, teacher, 1.0).item() == pytest.approx(expected)


def test_temperature_divides_both_logits_and_its_square_scales_the_loss():
    student, teacher = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 3.0]])
    at_one = soft_target_loss(student / 4, teacher / 4, 1.0)
    torch.testing.assert_close(soft_target_loss(student, teacher, 4.0), 16 * at_one)


def test_equal_divergence_an_item_gives_equal_loss_for_texts_and_for_tokens():
    student, teacher = torch.tensor([0.2, -1.0, 0.4]), torch.tensor([1.0, 0.0, -1.0])
    texts = soft_target_loss(student.expand(4, 3), teacher.expand(4, 3), 2.0)
    tokens = soft_target_loss(
        student.expand(4, 6, 3),
        teacher.expand(4, 6, 3),
        2.0,
        attention_mask=torch.tensor([[1] * n + [0] * (6 - n) for n in (1, 2, 5, 6)]),
    )
    torch.testing.assert_close(tokens, texts)


def test_token_logits_without_their_mask_are_refused():
    with pytest.raises(InputError, match="needs the attention_mask"):
        soft_target_loss(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), 1.0)


def test_logits_of_different_classes_are_refused_with_both_shapes():
    with pytest.raises(InputError, match=r"\[1, 2\] and teacher \[1, 3\]"):
        soft_target_loss(torch.zeros(1, 2), torch.zeros(1, 3), 1.0)


def test_multi_label_soft_targets_compare_each_label_alone():
    student = torch.tensor([[0.0, 0.0]])  # sigmoid: 1/2, 1/2
    teacher = torch.tensor([[math.log(3.0), 0.0]])  # sigmoid: 3/4, 1/2
    first = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    loss = multi_label_soft_target_loss(student, teacher, 1.0)
    assert loss.item() == pytest.approx(first / 2)  # the second label's is 0


def test_hard_label_loss_is_the_log_of_the_true_class():
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    expected = (-math.log(0.25) - math.log(0.5)) / 2
    assert hard_label_loss(logits, torch.tensor([1, 0])).item() == pytest.approx(expected)


def test_class_weight_multiplies_its_class_and_leaves_the_other_texts_alone():
    logits = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    loss = hard_label_loss(logits, torch.tensor([1, 0]), class_weights=torch.tensor([1.0, 10.0]))
    assert loss.item() == pytest.approx((-10 * math.log(0.25) - math.log(0.5)) / 2)


def test_float_labels_mean_any_number_of_labels_a_text():
    logits = torch.tensor([[0.0, math.log(3.0)]])  # sigmoid: 1/2, 3/4
    loss = hard_label_loss(logits, torch.tensor([[1.0, 0.0]]))
    assert loss.item() == pytest.approx((-math.log(0.5) - math.log(0.25)) / 2)


def test_masked_mse_averages_over_real_tokens_then_over_texts():
    student = torch.zeros(2, 2, 1)
    teacher = torch.tensor([[[1.0], [9.0]], [[2.0], [4.0]]])
    mask = torch.tensor([[1, 0], [1, 1]])
    assert masked_mse(student, teacher, mask).item() == ((1.0) + (4.0 + 16.0) / 2) / 2


def test_cosine_loss_is_one_for_vectors_at_right_angles_and_zero_for_parallel_ones():
    student = torch.tensor([[[1.0, 0.0], [3.0, 0.0]]])
    teacher = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]])
    assert cosine_loss(student, teacher, torch.ones(1, 2)).item() == pytest.approx(0.5)


def test_attention_scores_are_products_over_the_root_of_the_head_width():
    one = torch.ones(1, 1, 4)  # one token, one head of width 4: 4 / sqrt(4) = 2
    zero = torch.zeros(1, 1, 4)
    loss = attention_score_loss(one, one, zero, zero, torch.ones(1, 1), num_heads=1)
    assert loss.item() == 4.0


def test_attention_score_loss_takes_heads_of_different_widths():
    student, teacher = torch.randn(1, 3, 8), torch.randn(1, 3, 12)
    loss = attention_score_loss(student, student, teacher, teacher, torch.ones(1, 3), num_heads=4)
    assert loss.item() > 0


def test_relation_loss_matches_a_hand_calculation():
    student = torch.zeros(1, 2, 1)  # all products 0: both rows 1/2, 1/2
    teacher = torch.tensor([[[math.sqrt(math.log(3.0))], [0.0]]])  # rows 3/4, 1/4 and 1/2, 1/2
    row = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    loss = relation_loss(student, teacher, torch.ones(1, 2), num_relation_heads=1)
    assert loss.item() == pytest.approx(row / 2)


def test_relation_loss_compares_any_two_widths():
    student, teacher = torch.randn(1, 3, 8), torch.randn(1, 3, 12)
    assert relation_loss(student, teacher, torch.ones(1, 3), num_relation_heads=4).item() > 0


def test_relation_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(InputError, match="3 heads don't divide the width 8"):
        relation_loss(
            torch.zeros(1, 2, 8), torch.zeros(1, 2, 9), torch.ones(1, 2), num_relation_heads=3
        )


def test_similarity_matrix_loss_leaves_out_the_diagonal():
    student = torch.eye(3)  # cosine 0 between all
    teacher = torch.ones(3, 2)  # cosine 1 between all
    assert similarity_matrix_loss(student, teacher).item() == pytest.approx(1.0)
    assert similarity_matrix_loss(student[:1], teacher[:1]).item() == 0.0


def test_the_vector_loss_matches_a_hand_calculation():
    student, teacher = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    assert vector_cosine_loss(student, teacher).item() == pytest.approx(1.0)
