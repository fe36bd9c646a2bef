"""A BERT whose layers share attention or feed-forward part alone: its weights, saved and opened."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file

from compress.models.heads import drop_pruned_heads, zero_heads
from compress.models.loading import load_teacher
from compress.models.pretrained import load_as_saved
from compress.models.shared_bert import MODULES
from compress.sharing.albert import Plan
from compress.sharing.partly import share_part
from edgebert.errors import ModelError
from tests.compress.prune_models import HIDDEN, NEURONS, build
from tests.compress.share_models import outputs
from tests.compress.test_share_weights import HEADS, assert_same, made
from tests.tiny import write_tokenizer

PARTS = ("attention", "ffn")


def plan(part: str, groups: int = 2) -> Plan:
    return Plan(groups=groups, embedding_size=HIDDEN, share=part)


def alike(model, part: str) -> None:
    """Give layers 2 and 4 a part of layers 1 and 3, by hand."""
    layers = model.base_model.encoder.layer
    for first in (0, 2):
        for name in MODULES[part]:
            source = getattr(layers[first], name)
            getattr(layers[first + 1], name).load_state_dict(source.state_dict())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("part", PARTS)
def test_of_layers_alike_in_a_part_it_computes_the_same_saved_once_and_opened(part, head, tmp_path):
    model = made("Bert", head)
    alike(model, part)
    shared = share_part(model, plan(part))
    assert_same(shared, model)
    attention = 4 * (HIDDEN * HIDDEN + HIDDEN) + 2 * HIDDEN
    ffn = 2 * HIDDEN * NEURONS + NEURONS + HIDDEN + 2 * HIDDEN
    saved = 2 * {"attention": attention, "ffn": ffn}[part]  # of two layers
    params = sum(one.numel() for one in model.parameters()) - saved
    assert sum(one.numel() for one in shared.parameters()) == params
    shared.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(one.numel() for one in stored.values()) == params
    maker = getattr(transformers, f"Auto{head if head == 'Model' else 'Model' + head}")
    opened, info = maker.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] | info["unexpected_keys"]
    assert_same(opened.eval(), shared)
    layers = opened.base_model.encoder.layer
    same = [getattr(layers[0], name) is getattr(layers[1], name) for name in MODULES[part]]
    assert all(same)
    assert layers[0].attention is not layers[2].attention
    assert type(load_as_saved(tmp_path)) is type(shared)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("start", "expected"), [("mean", 3.0), ("first", 2.0)])
def test_a_group_starts_from_the_mean_or_the_first_and_the_rest_stays_each_layers_own(
    part, start, expected
):
    model = made("Bert")
    with torch.no_grad():
        for value, layer in zip((2.0, 4.0, 9.0, 9.0), model.bert.encoder.layer, strict=True):
            for parameter in layer.parameters():
                parameter.fill_(value)
    layers = share_part(model, plan(part), start=start).bert.encoder.layer
    for name, module in layers[1].named_children():
        wanted = expected if name in MODULES[part] else 4.0
        assert all(bool((one == wanted).all()) for one in module.parameters()), name


def test_the_model_is_left_as_it_was_and_so_is_the_generator():
    model = made("Bert")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    shared = share_part(model, plan("ffn"))
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        for parameter in shared.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_an_untied_output_layer_is_kept(tmp_path):
    model = made("Bert", "ForMaskedLM", tie_word_embeddings=False)
    alike(model, "ffn")
    shared = share_part(model, plan("ffn"))
    shared.save_pretrained(tmp_path)
    opened = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert not torch.equal(
        opened.get_output_embeddings().weight, opened.bert.embeddings.word_embeddings.weight
    )
    assert_same(opened, model)


def test_an_encoder_without_a_pooler_gets_none(tmp_path):
    model = made("Bert", "Model")
    model.pooler = None
    shared = share_part(model, plan("attention"))
    assert shared.pooler is None
    shared.save_pretrained(tmp_path)
    assert load_as_saved(tmp_path).pooler is None


def test_a_gradient_is_the_sum_over_the_layers_that_share():
    model = made("Bert", num_hidden_layers=2)
    alike_two = share_part(model, plan("ffn", groups=1), start="first")
    model.bert.encoder.layer[1].intermediate.load_state_dict(
        model.bert.encoder.layer[0].intermediate.state_dict()
    )
    model.bert.encoder.layer[1].output.load_state_dict(
        model.bert.encoder.layer[0].output.state_dict()
    )
    ids = torch.arange(5, 29).reshape(2, 12)
    for one in (model, alike_two):
        one(input_ids=ids).logits.square().sum().backward()
    own = [layer.output.dense.weight.grad for layer in model.bert.encoder.layer]
    found = alike_two.bert.encoder.layer[0].output.dense.weight.grad
    torch.testing.assert_close(found, own[0] + own[1])


@pytest.mark.parametrize("part", PARTS)
def test_a_pruned_head_is_taken_out_of_a_shared_attention_once(part):
    model = build("Bert", num_hidden_layers=4)
    zero_heads(model, [[1], [1], [0], [0]])
    shared = share_part(model, plan(part), start="first")
    expected = outputs(shared)
    drop_pruned_heads(shared)
    query = shared.bert.encoder.layer[1].attention.self.query
    assert query.out_features == HIDDEN * 3 // 4
    torch.testing.assert_close(outputs(shared), expected)


def test_a_head_of_no_task_is_refused():
    with pytest.raises(ModelError, match="A BertForNextSentencePrediction can't share its ffn"):
        share_part(made("Bert", "ForNextSentencePrediction"), plan("ffn"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_groups": 3}, "divisor of 4 layers, got 3"),
        ({"num_hidden_groups": 0}, "divisor of 4 layers, got 0"),
        ({"shared_part": "norms"}, "attention or ffn, got 'norms'"),
    ],
)
def test_a_checkpoint_that_says_something_else_is_refused(change, message, tmp_path):
    share_part(made("Bert"), plan("ffn")).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=message):
        load_teacher(tmp_path, task="text-classification")


@pytest.mark.slow
def test_transformers_refuses_it_until_our_family_is_imported(tmp_path):
    share_part(made("Bert"), plan("ffn")).save_pretrained(tmp_path)
    code = f"""
from transformers import AutoModelForSequenceClassification as Maker
try:
    Maker.from_pretrained({str(tmp_path)!r})
except ValueError as error:
    assert "edgebert-shared-bert" in str(error), error
    import compress.models.shared_bert
    print(type(Maker.from_pretrained({str(tmp_path)!r})).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["SharedBertForSequenceClassification"], done.stderr
