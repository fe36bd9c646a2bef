"""What hooks capture, against transformers' own outputs, family by family."""

from __future__ import annotations

import math

import pytest
import torch
import transformers
from transformers import AutoModel, AutoModelForSequenceClassification

from compress.models.capture import Wanted, forward_features, model_inputs
from compress.training.losses import scaled_products
from edgebert.errors import InputError, ModelError
from tests.tiny import bert_config

torch.set_num_threads(1)

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**SIZES),
    "roberta": lambda: transformers.RobertaConfig(**SIZES, type_vocab_size=1),
    "electra": lambda: transformers.ElectraConfig(**SIZES, embedding_size=16),
    "albert": lambda: transformers.AlbertConfig(**SIZES, embedding_size=16),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=50, dim=32, n_layers=3, n_heads=4, hidden_dim=40
    ),
    "deberta": lambda: transformers.DebertaV2Config(
        **SIZES, relative_attention=True, share_att_key=True, pos_att_type=["p2c", "c2p"]
    ),
    "mobilebert": lambda: transformers.MobileBertConfig(
        **SIZES, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16
    ),
}
PLAIN_ATTENTION = ("bert", "roberta", "electra", "albert", "distilbert")


def make(family, **changes):
    torch.manual_seed(0)
    config = CONFIGS[family]()
    for name, value in changes.items():
        setattr(config, name, value)
    return AutoModelForSequenceClassification.from_config(config).eval()


@pytest.fixture
def batch():
    return {
        "input_ids": torch.tensor([[2, 11, 12, 13, 3], [2, 14, 3, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 0, 0]]),
        "labels": torch.tensor([0, 1]),
    }


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_gives_what_is_wanted_in_its_shape(family, batch):
    features = forward_features(
        make(family), batch, Wanted(hidden_states=(0, 3), relations=(1, 3), pooled="mean")
    )
    assert features.logits.shape == (2, 2)
    assert {i: tuple(h.shape) for i, h in features.hidden.items()} == {
        0: (2, 5, 32),
        3: (2, 5, 32),
    }
    assert features.query.keys() == features.key.keys() == features.value.keys() == {1, 3}
    assert features.query[3].shape[:2] == (2, 5)
    assert features.query[3].shape[2] % features.num_heads == 0
    assert features.pooled.shape == (2, 32)


@pytest.mark.parametrize("family", PLAIN_ATTENTION)
def test_captured_queries_and_keys_give_the_attention_of_eager_transformers(family, batch):
    model = make(family)
    features = forward_features(model, batch, Wanted(relations=(1, 2, 3)))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(**model_inputs(model, batch), output_attentions=True).attentions
    for layer, expected in enumerate(attentions, start=1):
        scores = scaled_products(features.query[layer], features.key[layer], features.num_heads)
        padding = batch["attention_mask"][:, None, None] == 0
        found = scores.masked_fill(padding, -math.inf).softmax(-1)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_shared_layers_count_once_for_each_time_they_run(batch):
    features = forward_features(make("albert"), batch, Wanted(relations=(1, 2, 3)))
    assert not torch.equal(features.query[1], features.query[2])


def test_model_without_token_types_is_not_given_any(batch):
    assert "token_type_ids" not in model_inputs(make("distilbert"), batch)
    assert "token_type_ids" not in model_inputs(make("roberta", type_vocab_size=1), batch)
    assert "token_type_ids" in model_inputs(make("bert"), batch)


def test_teacher_logits_are_those_of_the_model_fed_directly(batch):
    model = make("bert")
    with torch.no_grad():
        direct = model(**{k: v for k, v in batch.items() if k != "labels"}).logits
        torch.testing.assert_close(forward_features(model, batch, Wanted()).logits, direct)


def test_head_does_not_run_when_no_logits_are_wanted(batch):
    model = make("bert")
    model.classifier.register_forward_hook(lambda *_: pytest.fail("the head ran"))
    features = forward_features(model, batch, Wanted(hidden_states=(3,), logits=False))
    assert features.logits is None


def test_gradients_flow_through_what_is_captured(batch):
    model = make("bert")
    features = forward_features(model, batch, Wanted(relations=(2,), logits=False))
    features.value[2].sum().backward()
    assert model.bert.encoder.layer[1].attention.self.value.weight.grad.abs().sum() > 0


def test_no_hook_stays_behind(batch):
    model = make("bert")
    forward_features(model, batch, Wanted(relations=(1,)))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("wanted", [Wanted(hidden_states=(4,)), Wanted(relations=(0,))])
def test_layer_that_does_not_exist_is_refused(wanted, batch):
    with pytest.raises(InputError, match="layers 1 to 3"):
        forward_features(make("bert"), batch, wanted)


def test_logits_of_a_model_without_a_head_are_refused(batch):
    model = AutoModel.from_config(bert_config())
    with pytest.raises(ModelError, match="BertModel has no head"):
        forward_features(model, batch, Wanted())


def test_pooling_leaves_padding_out(batch):
    model = make("bert")
    last = forward_features(model, batch, Wanted(hidden_states=(3,))).hidden[3]
    expected = {"mean": last[1, :3].mean(0), "cls": last[1, 0], "max": last[1, :3].amax(0)}
    for how, vector in expected.items():
        pooled = forward_features(model, batch, Wanted(logits=False, pooled=how)).pooled
        torch.testing.assert_close(pooled[1], vector)
