"""A model's rows by token, taken from every family's embeddings and heads."""

from __future__ import annotations

import pytest
import torch
import transformers

from compress.models.files import FAMILIES
from compress.models.pretrained import load_as_saved
from compress.models.saving import save_model
from compress.models.vocabulary import rename_ids, take_rows, vocab_rows
from edgebert.errors import ModelError
from tests.tiny import bert_config, write_classifier, write_encoder

KEPT = [0, 1, 2, 3, 7, 20, 11]  # not in order, and the padding of each family in its place
SIZE = 40
SHAPE = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "initializer_range": 0.2,
}
OWN = {
    "albert": {"embedding_size": 12},
    "electra": {"embedding_size": 12},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "mobilebert": {
        "embedding_size": 12,
        "intra_bottleneck_size": 16,
        "true_hidden_size": 16,
        "key_query_shared_bottleneck": True,
    },
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
}


def made(family, **changes):
    torch.manual_seed(0)
    shape = {**SHAPE, **OWN.get(family, {}), **changes}
    if family == "distilbert":
        shape = {k: v for k, v in shape.items() if not k.startswith(("hidden_size", "num_", "int"))}
    config = transformers.AutoConfig.for_model(family, **shape)
    model = transformers.AutoModelForMaskedLM.from_config(config).eval()
    for parameter in model.parameters():  # also the biases, which start as 0
        parameter.data.normal_(std=0.2)
    return model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_the_model_of_some_tokens_gives_the_logits_of_these_tokens(tmp_path, family, tied):
    model = made(family, tie_word_embeddings=tied)
    new_ids = torch.tensor([[0, 4, 5, 6, 2]])
    with torch.no_grad():
        expected = model(torch.tensor(KEPT)[new_ids]).logits[..., KEPT]
    take_rows(model, KEPT)
    save_model(model, tmp_path)
    smaller = load_as_saved(tmp_path)
    smaller.train(mode=False)
    assert vocab_rows(smaller) == smaller.config.vocab_size == len(KEPT)
    with torch.no_grad():
        torch.testing.assert_close(smaller(new_ids).logits, expected, atol=1e-6, rtol=0)


def test_no_other_size_that_happens_to_be_the_same_is_cut():
    config = bert_config(vocab_size=64, intermediate_size=64, max_position_embeddings=64)
    model = transformers.BertModel(config)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    take_rows(model, range(10))
    changed = [
        name for name, parameter in model.named_parameters() if parameter.shape != shapes[name]
    ]
    assert changed == ["embeddings.word_embeddings.weight"]


def test_a_configuration_gets_the_new_ids_of_the_tokens_that_it_names():
    config = bert_config(pad_token_id=5, bos_token_id=7, eos_token_id=[7, 9], sep_token_id=8)
    rename_ids(config, {5: 0, 7: 1})
    assert config.pad_token_id == 0
    assert config.bos_token_id == 1
    assert config.eos_token_id == [1]
    assert config.sep_token_id is None


def test_a_checkpoint_is_loaded_as_the_class_that_it_was_saved_as(tmp_path):
    saved = write_classifier(tmp_path)
    loaded = load_as_saved(tmp_path)
    assert type(loaded) is type(saved)
    assert torch.equal(loaded.classifier.weight, saved.classifier.weight)


def test_a_head_with_gaps_is_refused(tmp_path):
    encoder = write_encoder(tmp_path)
    encoder.config.architectures = ["BertForSequenceClassification"]
    encoder.config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="lacks weights of its head"):
        load_as_saved(tmp_path)


@pytest.mark.parametrize("name", ["BertForNothing", "AutoTokenizer", "logging"])
def test_a_class_that_is_no_model_is_refused(tmp_path, name):
    encoder = write_encoder(tmp_path)
    encoder.config.architectures = [name]
    encoder.config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=f"was saved as '{name}'"):
        load_as_saved(tmp_path)


def test_weights_that_are_left_out_are_named(tmp_path, caplog):
    write_classifier(tmp_path).config.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    config.architectures = ["BertModel"]
    config.save_pretrained(tmp_path)
    load_as_saved(tmp_path)
    assert "classifier.weight" in caplog.text
