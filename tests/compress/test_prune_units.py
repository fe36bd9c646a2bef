"""What matters least by an independent count, and what a model gives without it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import transformers

from compress.models.graph_module import GraphModule
from compress.models.heads import pruned_heads
from compress.models.task_head import TaskHead
from compress.pruning.config import PruneConfig, parse_size
from compress.pruning.importance import magnitude_importance, needed_layers, taylor_importance
from compress.pruning.plan import Plan, make_plan
from compress.pruning.units import choose_heads, cut_heads, cut_layers, cut_neurons, shape_of
from edgebert.errors import InputError, ModelError
from tests.compress.prune_models import (
    FAMILIES,
    HEADS,
    HIDDEN,
    NEURONS,
    SIZE,
    batch,
    build,
    linears,
    logits,
    mask_inputs,
    places_of,
)

LABELS = torch.tensor([0, 1])


def loss_of(model):
    def loss(inputs):
        given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        return torch.nn.functional.cross_entropy(model(**given).logits, LABELS)

    return loss


def slopes(model, name: str, layer: int, width: int, count: int) -> torch.Tensor:
    """Scale what a matrix reads of each unit up and down: finite differences of the loss."""
    weight, step, found = linears(model, layer)[name].weight, 1e-4, []
    for unit in range(count):
        values = []
        for sign in (1, -1):
            columns = slice(unit * width, (unit + 1) * width)
            before = weight.data[:, columns].clone()
            weight.data[:, columns] *= 1 + sign * step
            with torch.no_grad():
                values.append([float(loss_of(model)(one)) for one in two_batches()])
            weight.data[:, columns] = before
        up, down = torch.tensor(values, dtype=torch.float64)
        found.append(((up - down) / (2 * step)).abs().mean())
    return torch.stack(found)


def two_batches():
    other = batch()
    return [batch(), {**other, "input_ids": other["input_ids"].flip(1)}]


@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
def test_taylor_importance_is_the_slope_of_the_loss_over_a_gate(family):
    model = build(family).double()
    found = taylor_importance(model, two_batches(), loss_of(model))
    for layer in range(2):
        for name, width, rows in (("out", SIZE, found.heads), ("down", 1, found.neurons)):
            expected = slopes(model, name, layer, width, rows.shape[1])
            expected = (expected / expected.norm()).float()
            torch.testing.assert_close(rows[layer], expected, atol=1e-5, rtol=1e-4)


def test_a_measurement_leaves_neither_hooks_nor_gradients():
    model = build("Bert")
    before = logits(model)
    taylor_importance(model, two_batches(), loss_of(model))
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    torch.testing.assert_close(logits(model), before, atol=0, rtol=0)


def test_magnitude_importance_is_the_product_of_two_norms():
    model = build("Bert")
    found = magnitude_importance(model)
    parts = {name: one.weight.detach().numpy() for name, one in linears(model, 1).items()}
    heads = [
        (parts["value"][places_of([h])] ** 2).sum() ** 0.5
        * (parts["out"][:, places_of([h])] ** 2).sum() ** 0.5
        for h in range(HEADS)
    ]
    neurons = [
        (parts["up"][n] ** 2).sum() ** 0.5 * (parts["down"][:, n] ** 2).sum() ** 0.5
        for n in range(NEURONS)
    ]
    for rows, values in ((found.heads[1], heads), (found.neurons[1], neurons)):
        expected = torch.tensor(values) / torch.tensor(values).norm()
        torch.testing.assert_close(rows, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", ["taylor", "magnitude"])
def test_neurons_that_nothing_reads_go_first_and_change_nothing(family, how, tmp_path):
    model = build(family)
    for layer in range(2):
        linears(model, layer)["down"].weight.data[:, layer::3] = 0
    before = logits(model)
    importance = (
        magnitude_importance(model)
        if how == "magnitude"
        else taylor_importance(model, two_batches(), loss_of(model))
    )
    cut_neurons(model, importance.neurons, NEURONS - NEURONS // 3)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert linears(again, 0)["up"].weight.shape == (NEURONS - NEURONS // 3, HIDDEN)
    torch.testing.assert_close(logits(again), before, atol=1e-6, rtol=0)


def test_the_neurons_that_matter_most_stay_in_their_order():
    model = build("Bert")
    before = copy.deepcopy(model)
    importance = torch.rand(2, NEURONS, generator=torch.Generator().manual_seed(1))
    cut_neurons(model, importance, 7)
    for layer in range(2):
        kept = sorted(sorted(range(NEURONS), key=lambda n: -importance[layer, n])[:7])
        was, now = linears(before, layer), linears(model, layer)
        assert torch.equal(now["up"].weight, was["up"].weight[kept])
        assert torch.equal(now["up"].bias, was["up"].bias[kept])
        assert torch.equal(now["down"].weight, was["down"].weight[:, kept])
        assert torch.equal(now["down"].bias, was["down"].bias)


@pytest.mark.parametrize("family", FAMILIES)
def test_cut_heads_give_what_masked_heads_give_in_a_checkpoint_and_in_a_graph(family, tmp_path):
    model, gone = build(family), [[1, 2], [0]]
    masked = copy.deepcopy(model)
    for layer, heads in enumerate(gone):
        mask_inputs(linears(masked, layer)["out"], places_of(heads))
    cut_heads(model, gone)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(masked), atol=1e-5, rtol=0)
    assert pruned_heads(again) == gone
    assert again.config.edgebert_pruned_heads == {"0": [1, 2], "1": [0]}
    module = GraphModule(again, TaskHead(task="text-classification"))
    inputs = batch() | {"token_type_ids": torch.zeros(2, 12, dtype=torch.long)}
    with torch.no_grad():
        found = module(*(inputs[name] for name in module.input_names))[0]
    torch.testing.assert_close(found, logits(masked), atol=1e-5, rtol=0)
    for layer, heads in enumerate(gone):
        width, parts = (HEADS - len(heads)) * SIZE, linears(module.model, layer)
        assert parts["query"].weight.shape == parts["value"].weight.shape == (width, HIDDEN)
        assert parts["out"].weight.shape == (HIDDEN, width)
        assert linears(again, layer)["out"].weight.shape == (HIDDEN, HIDDEN)  # left as it was


def test_a_pruned_head_stays_zero_when_the_model_learns():
    model = build("Bert")
    cut_heads(model, [[3], [0, 1]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for inputs in two_batches():
        loss_of(model)(inputs).backward()
        optimizer.step()
    assert pruned_heads(model) == [[3], [0, 1]]
    for name in ("query", "value"):
        assert not linears(model, 0)[name].weight[places_of([3])].any()
        assert not linears(model, 0)[name].bias[places_of([3])].any()


def test_the_least_heads_of_all_layers_go_but_never_a_layers_last():
    importance = torch.tensor([[0.1, 0.2, 0.3], [0.9, 0.8, 0.25]])
    assert choose_heads(importance, [[], []], 2) == [[0, 1], []]
    assert choose_heads(importance, [[], []], 3) == [[0, 1], [2]]
    assert choose_heads(importance, [[2], []], 2) == [[0, 2], [2]]


@pytest.mark.parametrize("family", ["Bert", "DistilBert", "DebertaV2", "MobileBert"])
def test_the_layer_whose_absence_changes_the_output_least_goes(family, tmp_path):
    changes = {"num_hidden_layers": 3, "n_layers": 3} if family == "DistilBert" else {}
    if family == "MobileBert":
        changes = {"intra_bottleneck_size": 16, "embedding_size": 16}
    model = build(family, **{"num_hidden_layers": 3, **changes})

    def output(inputs):
        return model(**inputs).logits

    def change(kept):
        other = copy.deepcopy(model)
        cut_layers(other, kept)
        assert other.config.num_hidden_layers == len(kept)
        return float((logits(other) - logits(model)).square().mean())

    kept = needed_layers(model, [batch()], output, count=2)
    assert kept == min(([0, 1], [0, 2], [1, 2]), key=change)
    cut_layers(model, kept)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again), logits(model), atol=1e-6, rtol=0)


def test_a_shape_counts_what_is_left():
    model = build("Bert")
    cut_heads(model, [[3], []])
    layers = sum(p.numel() for p in model.bert.encoder.parameters())
    zeros = sum(int((p == 0).sum()) for p in model.bert.encoder.parameters())
    shape = shape_of(model)
    assert shape.heads == (3, 4)
    assert shape.zeros == zeros == shape.head_params
    assert shape.layer_params == layers - zeros


def test_layers_that_go_take_their_pruned_heads_along():
    model = build("Bert")
    cut_heads(model, [[3], [0]])
    cut_layers(model, [1])
    assert pruned_heads(model) == [[0]]
    assert model.config.edgebert_pruned_heads == {"0": [0]}


def test_the_last_round_reaches_what_is_planned():
    plan = Plan(heads=5, neurons=33, layers=0)
    parts = [plan.part(number, 3) for number in (1, 2, 3)]
    assert [part.neurons for part in parts] == [11, 22, 33]
    assert parts[-1] == plan


def test_albert_has_no_layer_to_cut():
    with pytest.raises(ModelError, match="nothing can be cut out of them"):
        shape_of(build("Albert", embedding_size=16))


def test_of_a_family_without_such_matrices_whole_layers_alone_can_be_cut():
    shape = shape_of(build("DebertaV2"))
    settings = {"model": "x", "output_dir": Path("y")}
    with pytest.raises(ModelError, match="give --num-hidden-layers"):
        make_plan(shape, PruneConfig(sparsity=0.5, **settings), family="deberta-v2")
    plan = make_plan(shape, PruneConfig(num_hidden_layers=1, **settings), family="deberta-v2")
    assert plan == Plan(layers=1)


@pytest.mark.parametrize(
    ("text", "size"), [("8MB", 8_000_000), ("1.5 kB", 1500), ("70000", 70_000), ("1GB", 10**9)]
)
def test_a_size_is_read_in_units_of_a_thousand(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["8MiB", "-1", "0", "much"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InputError, match="like 8MB"):
        parse_size(text)
