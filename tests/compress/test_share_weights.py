"""A BERT's weights in an ALBERT: the same outputs, or those of the mean and the best factors."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import layer_norm

from compress.sharing import albert
from compress.sharing.albert import Plan, to_albert
from compress.sharing.factorise import Embeddings, project_tables
from edgebert.errors import ModelError
from tests.compress.prune_models import HIDDEN, build
from tests.compress.share_models import outputs

HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForMaskedLM",
    "Model",
)
EPS, WORDS, POSITIONS = 1e-12, 200, 20


def made(family: str, head: str = "ForSequenceClassification", **changes):
    labels = {} if head == "ForQuestionAnswering" else {"num_labels": 3}
    return build(family, head, **{"num_hidden_layers": 4, **labels, **changes})


def assert_same(one, other, *, atol=1e-6):
    for ours, theirs in zip(outputs(one), outputs(other), strict=True):
        torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", ["Bert", "Roberta", "XLMRoberta", "Camembert"])
def test_as_many_groups_as_layers_compute_the_same(family, head):
    model = made(family, head, layer_norm_eps=0.01)
    twin = to_albert(model, Plan(groups=4, embedding_size=HIDDEN))
    assert twin.config.model_type == "albert"
    assert_same(twin, model)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_the_activation_is_the_model_s(activation):
    model = made("Bert", hidden_act=activation)
    assert_same(to_albert(model, Plan(groups=4, embedding_size=HIDDEN)), model)


def test_an_untied_output_layer_is_kept():
    model = made("Bert", "ForMaskedLM", tie_word_embeddings=False)
    twin = to_albert(model, Plan(groups=4, embedding_size=HIDDEN))
    assert not torch.equal(twin.predictions.decoder.weight, twin.get_input_embeddings().weight)
    assert_same(twin, model)


def test_an_encoder_without_a_pooler_gets_none():
    model = made("Bert", "Model")
    model.pooler = None
    assert to_albert(model, Plan(groups=4, embedding_size=HIDDEN)).pooler is None


@pytest.mark.parametrize("start", ["mean", "first"])
def test_neighbours_share_in_the_order_of_the_layers(start):
    model = made("Bert")
    layers = model.bert.encoder.layer
    for first in (0, 2):
        layers[first + 1].load_state_dict(layers[first].state_dict())
    assert_same(to_albert(model, Plan(groups=2, embedding_size=HIDDEN), start=start), model)


@pytest.mark.parametrize(("start", "expected"), [("mean", 3.0), ("first", 2.0)])
def test_a_group_starts_from_the_mean_of_its_layers_or_from_its_first(start, expected):
    model = made("Bert")
    with torch.no_grad():
        for value, layer in zip((2.0, 4.0, 9.0, 9.0), model.bert.encoder.layer, strict=True):
            for parameter in layer.parameters():
                parameter.fill_(value)
    twin = to_albert(model, Plan(groups=2, embedding_size=HIDDEN), start=start)
    group = twin.albert.encoder.albert_layer_groups[0]
    assert all(bool((one == expected).all()) for one in group.parameters())


def test_the_model_is_left_as_it_was_and_so_is_the_generator():
    model = made("Bert")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    twin = to_albert(model, Plan(groups=2, embedding_size=8))
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_head_that_an_albert_lacks_is_refused():
    with pytest.raises(ModelError, match="transformers has no AlbertForNextSentencePrediction"):
        to_albert(made("Bert", "ForNextSentencePrediction"), Plan(groups=2, embedding_size=HIDDEN))


def tables(rank: int = HIDDEN, *, unlike: int = 0) -> Embeddings:
    """Make tables whose sums use so many directions; some words need others than the rest."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    axes = normal(rank, HIDDEN)
    words = normal(WORDS, rank) @ axes
    words[:unlike] = 3 * normal(unlike, HIDDEN)
    return Embeddings(
        words=words,
        positions=normal(POSITIONS, rank) @ axes,
        token_types=normal(2, rank) @ axes,
        norm_weight=normal(HIDDEN) + 2,
        norm_bias=normal(HIDDEN),
        eps=EPS,
    )


def worst_error(whole: Embeddings, size: int, counts: torch.Tensor, *, words: int = WORDS) -> float:
    """Compare the outputs of both forms for words at other positions and types than were fitted."""
    found = project_tables(whole, size, counts=counts)
    word = torch.arange(words)
    place, kind = (7 * word + 3) % POSITIONS, word % 2
    wide = whole.words[word] + whole.positions[place] + whole.token_types[kind]
    expected = layer_norm(wide, (HIDDEN,), whole.norm_weight, whole.norm_bias, EPS)
    narrow = found.words[word] + found.positions[place] + found.token_types[kind]
    normal = layer_norm(narrow, (size,), found.norm_weight.double(), found.norm_bias.double(), EPS)
    return float((normal @ found.mapping.T + found.mapping_bias - expected).abs().max())


def test_factors_of_full_rank_give_what_the_tables_gave():
    assert worst_error(tables(), HIDDEN, torch.zeros(WORDS)) < 1e-4


def test_a_model_with_factors_of_full_rank_computes_the_same(monkeypatch):
    def full_rank(whole, size, *, counts):
        assert counts is None
        return project_tables(whole, size, counts=torch.zeros(len(whole.words)))

    monkeypatch.setattr(albert, "factorise_embeddings", full_rank)
    model = made("Bert")
    twin = to_albert(model, Plan(groups=4, embedding_size=HIDDEN))
    mapping = twin.albert.encoder.embedding_hidden_mapping_in.weight
    assert not torch.allclose(mapping, torch.eye(HIDDEN), atol=0.1)
    assert_same(twin, model, atol=1e-4)


def test_tables_that_use_no_more_directions_are_kept_whole():
    assert worst_error(tables(9), 10, torch.zeros(WORDS)) < 1e-4  # one axis is the mean's
    assert worst_error(tables(9), 8, torch.zeros(WORDS)) > 0.1


def test_a_word_that_occurs_often_is_kept_closer():
    whole, often = tables(9, unlike=1), torch.zeros(WORDS)
    seldom = worst_error(whole, 10, often, words=1)
    often[0] = 10_000
    assert worst_error(whole, 10, often, words=1) < seldom / 2


def test_a_position_that_no_token_has_takes_no_row():
    model = made("Roberta", max_position_embeddings=40)  # two of them for padding
    twin = to_albert(model, Plan(groups=2, embedding_size=8))
    assert twin.config.max_position_embeddings == 38
    assert twin.albert.embeddings.position_embeddings.weight.shape == (38, 8)
