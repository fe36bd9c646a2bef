"""How much single weights matter, by finite differences and by a plain training loop."""

from __future__ import annotations

import copy

import pytest
import torch

import compress
from compress.pruning.elements import (
    magnitude_elements,
    movement_elements,
    movement_importance,
    taylor_elements,
)
from edgebert.errors import InputError
from tests.compress.prune_models import HEADS, SIZE, batch, build, linears, prune_settings

LABELS = torch.tensor([0, 1])
PLACES = [(0, "query", 3, 5), (0, "down", 7, 11), (1, "up", 2, 0), (1, "out", 30, 9)]


def loss_of(model):
    def loss(inputs):
        given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        return torch.nn.functional.cross_entropy(model(**given).logits, LABELS)

    return loss


def two_batches():
    other = batch()
    return [batch(), {**other, "input_ids": other["input_ids"].flip(1)}]


def slope(model, weight, place, inputs) -> float:
    """Give a finite difference of the loss over one weight."""
    values, step = [], 1e-5
    for sign in (1, -1):
        weight.data[place] += sign * step
        with torch.no_grad():
            values.append(float(loss_of(model)(inputs)))
        weight.data[place] -= sign * step
    return (values[0] - values[1]) / (2 * step)


def name_of(model, weight) -> str:
    return next(name for name, one in model.named_parameters() if one is weight)


def test_taylor_is_the_weight_times_the_slope_of_the_loss():
    model = build("Bert").double()
    found = taylor_elements(model, two_batches(), loss_of(model))
    for layer, part, *place in PLACES:
        weight = linears(model, layer)[part].weight
        slopes = [abs(slope(model, weight, tuple(place), one)) for one in two_batches()]
        expected = abs(float(weight[tuple(place)].detach())) * sum(slopes) / 2
        value = float(found[name_of(model, weight)][tuple(place)])
        assert value == pytest.approx(expected, rel=1e-3, abs=1e-9)


def test_magnitude_counts_a_table_as_much_as_a_small_matrix():
    found = magnitude_elements(build("Bert"))
    for values in found.values():
        assert float(values.sum()) == pytest.approx(1, abs=1e-4)


def test_movement_is_summed_over_the_steps_of_a_training():
    model = build("Bert")
    plain = copy.deepcopy(model)
    found = movement_elements(
        model, two_batches(), loss_of(model), learning_rate=1e-3, max_grad_norm=0.5
    )
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3, weight_decay=0.0)
    expected = {name: torch.zeros_like(one) for name, one in plain.named_parameters()}
    for inputs in two_batches():
        loss_of(plain)(inputs).backward()
        for name, one in plain.named_parameters():
            if one.grad is not None:
                expected[name] -= one.detach() * one.grad
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    assert set(found) == set(expected)
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-3)
    theirs = dict(plain.named_parameters())
    for name, ours in model.named_parameters():
        if not name.endswith("key.bias"):  # its true slope is 0, and AdamW's step a noise's sign
            torch.testing.assert_close(ours, theirs[name], atol=1e-5, rtol=1e-4)


def test_the_movement_of_a_head_and_a_neuron_is_that_of_a_gate_on_it():
    model = build("Bert").double()
    given = copy.deepcopy(model)
    elements = movement_elements(
        model, [batch()], loss_of(model), learning_rate=1e-3, max_grad_norm=1.0
    )
    found = movement_importance(model, elements)
    for part, width, rows in (("out", SIZE, found.heads), ("down", 1, found.neurons)):
        weight = linears(given, 1)[part].weight
        expected = []
        for unit in range(rows.shape[1]):
            columns, values = slice(unit * width, (unit + 1) * width), []
            for sign in (1, -1):
                before = weight.data[:, columns].clone()
                weight.data[:, columns] *= 1 + sign * 1e-4
                with torch.no_grad():
                    values.append(float(loss_of(given)(batch())))
                weight.data[:, columns] = before
            expected.append(-(values[0] - values[1]) / 2e-4)
        wanted = torch.nn.functional.normalize(torch.tensor(expected), dim=0)
        torch.testing.assert_close(rows[1], wanted.float(), atol=1e-4, rtol=1e-3)


def test_movement_prunes_and_leaves_the_weights_that_stay_as_they_were(lab, tmp_path):
    config = prune_settings(
        lab, tmp_path / "out", sparsity=0.5, importance="movement", num_train_epochs=0
    )
    result = compress.prune(config)
    assert result.importance == "movement"
    assert result.after.heads == HEADS  # half of eight
    import transformers

    maker = transformers.AutoModelForSequenceClassification
    before, after = (maker.from_pretrained(one) for one in (lab.teacher, tmp_path / "out"))
    table = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(before.get_parameter(table), after.get_parameter(table))
    rows = before.bert.encoder.layer[0].intermediate.dense.weight.tolist()
    for row in after.bert.encoder.layer[0].intermediate.dense.weight.tolist():
        assert row in rows


@pytest.mark.parametrize("importance", ["taylor", "movement"])
def test_an_importance_by_a_loss_needs_labels(lab, tmp_path, importance):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(lab.train.read_text().splitlines()[1:]) + "\n")
    config = prune_settings(
        lab,
        tmp_path / "out",
        model=str(lab.embedder),
        train_file=texts,
        dev_file=texts,
        task="feature-extraction",
        sparsity=0.4,
        importance=importance,
    )
    with pytest.raises(InputError, match=f"--importance {importance} measures a loss"):
        compress.prune(config)
