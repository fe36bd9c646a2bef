"""Rounded numbers in training: right by hand, without a trace, gradients as if there were none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AlbertForSequenceClassification

from compress.models.capture import Wanted, forward_features
from compress.training.checkpoint import weights_sha256
from compress.training.fake_quant import (
    ROUNDINGS,
    Rounding,
    fake_quantized,
    round_activations,
    round_weight,
)
from tests.compress.phases import models
from tests.tiny import VOCAB

INT8, INT4 = ROUNDINGS["int8"], ROUNDINGS["int4"]
PER_TOKEN = Rounding(steps=127, activations="token")
IDS = torch.tensor([[2, 7, 9, 30, 3], [2, 8, 3, 0, 0]])
BATCH = {"input_ids": IDS, "attention_mask": (IDS > 0).long()}


def close(found, expected):
    torch.testing.assert_close(found, torch.tensor(expected))


@pytest.fixture
def classifier():
    """A model whose numbers are large enough to be moved by rounding."""
    model = models("text-classification")["teacher"]
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def albert():
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=len(VOCAB),
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=0.2,
    )
    return AlbertForSequenceClassification(config).eval()


def logits(model, batch=BATCH):
    with torch.no_grad():
        return model(**batch).logits


def test_each_row_of_a_matrix_is_rounded_to_127ths_of_its_largest_number():
    weight = torch.tensor([[1.27, -0.506, 0.004], [0.0, -2.54, 0.99]])
    close(round_weight(weight, steps=127), [[1.27, -0.51, 0.0], [0.0, -2.54, 1.0]])


def test_int4_has_a_scale_for_each_block_and_the_last_block_may_be_short():
    weight = torch.tensor([[7.0, 3.4, 0.875, 0.3, -1.75]])  # scales of 1, 1/8 and 1/4
    close(round_weight(weight, steps=7, block=2), [[7.0, 3.0, 0.875, 0.25, -1.75]])


def test_a_scale_of_int4_has_the_11_bits_of_a_float16():
    found = round_weight(torch.tensor([[7 * 1.0004, 1.0]]), steps=7, block=2)
    close(found, [[7.0, 1.0]])


def test_int4_blocks_are_of_32_and_activations_stay_fp32():
    assert Rounding(steps=7, block=32) == INT4


def test_a_row_of_zeros_stays_zeros():
    close(round_weight(torch.zeros(2, 3), steps=127), [[0.0] * 3] * 2)
    close(round_activations(torch.zeros(1, 3), rows="text"), [[0.0] * 3])


def test_activations_have_255_steps_from_the_smallest_number_to_the_largest():
    values = torch.tensor([[-1.0, 0.004, 0.126, 1.55]])  # steps of 0.01
    close(round_activations(values, rows="text"), [[-1.0, 0.0, 0.13, 1.55]])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_zero_is_a_step_even_where_all_numbers_have_one_sign(sign):
    values = sign * torch.tensor([[2.55, 1.234]])
    close(round_activations(values, rows="text"), [[sign * 2.55, sign * 1.23]])


def test_a_text_has_a_scale_of_its_own_and_so_may_a_token():
    values = torch.tensor([[[2.55, 0.0], [0.255, 0.0014]], [[0.0255, 0.0], [0.0, 0.00014]]])
    by_text = [[[2.55, 0.0], [0.26, 0.0]], [[0.0255, 0.0], [0.0, 0.0001]]]
    close(round_activations(values, rows="text"), by_text)
    by_token = [[[2.55, 0.0], [0.255, 0.001]], [[0.0255, 0.0], [0.0, 0.00014]]]
    close(round_activations(values, rows="token"), by_token)


def test_padding_has_no_say_in_the_scale_of_its_text():
    values = torch.tensor([[[2.55, 1.234], [99.0, -99.0]]])
    found = round_activations(values, rows="text", mask=torch.tensor([[1, 0]]))
    close(found[0, 0], [2.55, 1.23])


@pytest.mark.parametrize("rounding", [INT8, INT4, PER_TOKEN])
def test_a_padded_text_computes_what_it_does_alone(classifier, rounding):
    alone = {name: values[1:, :3] for name, values in BATCH.items()}
    with fake_quantized([classifier], rounding):
        torch.testing.assert_close(logits(classifier)[1:], logits(classifier, alone))


def test_gradients_pass_as_if_nothing_were_rounded():
    weight = torch.randn(4, 6, requires_grad=True)
    values = torch.randn(2, 3, 6, requires_grad=True)
    slopes = torch.randn(2, 3, 6)
    (round_activations(values, rows="text") * slopes).sum().backward()
    (round_weight(weight, steps=7, block=4) * slopes[0, 0]).sum().backward()
    torch.testing.assert_close(values.grad, slopes)
    torch.testing.assert_close(weight.grad, slopes[0, 0].expand(4, 6))


def test_a_product_is_that_of_the_rounded_numbers_and_so_are_its_gradients():
    linear, inputs = nn.Linear(6, 4), torch.randn(5, 6, requires_grad=True)
    weight = round_weight(linear.weight.detach(), steps=127)
    rounded = round_activations(inputs.detach(), rows="text")
    with fake_quantized([linear], INT8):
        found = linear(inputs)
    torch.testing.assert_close(found, rounded @ weight.T + linear.bias)
    found.sum().backward()
    torch.testing.assert_close(inputs.grad, weight.sum(dim=0).expand(5, 6))
    torch.testing.assert_close(linear.weight.grad, rounded.sum(dim=0).expand(4, 6))


def test_a_token_is_looked_up_in_rounded_numbers_and_its_row_learns():
    table = nn.Embedding(3, 2)
    table.weight.data = torch.tensor([[9.0, 9.0], [1.27, 0.504], [9.0, 9.0]])
    with fake_quantized([table], INT4):  # tables have INT8 rows there too
        found = table(torch.tensor([1]))
    close(found.detach(), [[1.27, 0.5]])
    found.sum().backward()
    torch.testing.assert_close(table.weight.grad, torch.tensor([[0.0] * 2, [1.0] * 2, [0.0] * 2]))


@pytest.mark.parametrize("rounding", [INT8, INT4, PER_TOKEN])
def test_the_model_is_rounded_within_the_context_and_nothing_else_of_it_changes(
    classifier, rounding
):
    before, names, same = logits(classifier), list(classifier.state_dict()), weights_sha256
    weights = same(classifier)
    with fake_quantized([classifier], rounding):
        assert list(classifier.state_dict()) == names
        assert same(classifier) == weights
        assert (logits(classifier) - before).abs().max() > 1e-3
    assert list(classifier.state_dict()) == names
    assert all("forward" not in vars(module) for module in classifier.modules())
    assert not any(module._forward_pre_hooks for module in classifier.modules())


@pytest.mark.parametrize("rounding", [INT8, INT4])
def test_afterwards_the_plain_weights_are_those_that_were_computed_with(classifier, rounding):
    weights_alone = replace(rounding, activations=None)
    with fake_quantized([classifier], weights_alone):
        rounded = logits(classifier)
    torch.testing.assert_close(logits(classifier), rounded)
    with fake_quantized([classifier], weights_alone):  # rounding again changes nothing
        torch.testing.assert_close(logits(classifier), rounded)


def test_a_table_that_is_a_heads_matrix_too_keeps_the_8_bits_of_a_table():
    model = models("fill-mask")["teacher"]
    table = model.get_input_embeddings().weight
    expected = round_weight(table.detach(), steps=127)
    with fake_quantized([model], INT4):
        pass
    torch.testing.assert_close(model.get_output_embeddings().weight.detach(), expected)


def test_none_rounds_nothing(classifier):
    before = logits(classifier)
    with fake_quantized([classifier, None], ROUNDINGS["none"]):
        assert torch.equal(logits(classifier), before)


def test_an_error_within_the_context_leaves_the_model_as_it_was(classifier):
    before = logits(classifier)
    with pytest.raises(RuntimeError), fake_quantized([classifier], INT8):
        raise RuntimeError
    assert torch.equal(logits(classifier), before)


def test_what_layers_share_is_rounded_once():
    model = albert()
    expected = {
        name: parameter.detach().clone()
        if parameter.dim() == 1
        else round_weight(parameter.detach(), steps=127)
        for name, parameter in model.named_parameters()
    }
    with fake_quantized([model], INT8):
        rounded = logits(model)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name])
    with fake_quantized([model], INT8):
        torch.testing.assert_close(logits(model), rounded)


def test_queries_keys_and_values_are_captured_as_the_engine_computes_them(classifier):
    wanted = Wanted(relations=(1,))
    plain = forward_features(classifier, BATCH, wanted)
    with torch.no_grad(), fake_quantized([classifier], INT8):
        rounded = forward_features(classifier, BATCH, wanted)
    assert rounded.query[1].shape == plain.query[1].shape
    assert not torch.equal(rounded.query[1], plain.query[1])
