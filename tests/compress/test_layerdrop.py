"""LayerDrop skips whole layers while a model is trained, and at no other time."""

from __future__ import annotations

import pytest
import torch

from compress.models.exits import encoder_layers
from compress.training.layerdrop import dropped_layers
from edgebert.errors import ModelError
from tests.tiny import bert_config

IDS = torch.tensor([[2, 57, 59, 3]])


@pytest.fixture
def model():
    from transformers import BertForSequenceClassification

    torch.manual_seed(0)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(bert_config(num_hidden_layers=4, **no_dropout))


def hidden_of(model, *layers: int) -> torch.Tensor:
    """Run the embeddings and some layers, one after another."""
    hidden = model.bert.embeddings(input_ids=IDS)
    for layer in layers:
        hidden = encoder_layers(model)[layer](hidden)
    return hidden


def last_hidden(model) -> torch.Tensor:
    return model.bert(input_ids=IDS).last_hidden_state


@pytest.mark.parametrize("seed", range(6))
def test_the_layers_that_are_drawn_are_left_out_and_the_others_run(model, seed):
    torch.manual_seed(seed)
    kept = [layer for layer in range(4) if float(torch.rand(())) >= 0.5]
    model.train()
    torch.manual_seed(seed)
    with dropped_layers(model, 0.5):
        found = last_hidden(model)
    torch.testing.assert_close(found, hidden_of(model, *kept))


def test_a_skipped_layer_gets_no_gradient_and_a_kept_one_does(model):
    model.train()
    torch.manual_seed(0)
    kept = [float(torch.rand(())) >= 0.5 for _ in range(4)]
    assert set(kept) == {True, False}
    torch.manual_seed(0)
    with dropped_layers(model, 0.5):
        last_hidden(model).sum().backward()
    weights = [layer.output.dense.weight.grad for layer in encoder_layers(model)]
    assert [weight is not None for weight in weights] == kept


def test_all_layers_run_where_it_is_measured(model):
    model.eval()
    with torch.no_grad(), dropped_layers(model, 0.99):
        found = last_hidden(model)
    torch.testing.assert_close(found, hidden_of(model, 0, 1, 2, 3))


def test_all_layers_run_again_afterwards(model):
    model.train()
    with dropped_layers(model, 0.99):
        pass
    torch.testing.assert_close(last_hidden(model), hidden_of(model, 0, 1, 2, 3))
    assert all("forward" not in vars(layer) for layer in encoder_layers(model))


def test_hidden_states_are_counted_with_a_layer_left_out(model):
    model.train()
    torch.manual_seed(0)
    with dropped_layers(model, 0.5):
        states = model(input_ids=IDS, output_hidden_states=True).hidden_states
    assert len(states) == 5


def test_a_family_that_shares_its_layers_is_refused_by_name():
    from transformers import AlbertConfig, AlbertForSequenceClassification

    shared = AlbertForSequenceClassification(
        AlbertConfig(vocab_size=9, embedding_size=8, hidden_size=8, num_attention_heads=2)
    )
    with pytest.raises(ModelError, match=r"'albert' share weights.*distilbert"):
        encoder_layers(shared)
