"""A narrower model is what is left of the wider one, and transformers opens it."""

from __future__ import annotations

import copy
import json

import pytest
import torch
import transformers
from torch import nn

import compress
from compress.models.heads import pruned_heads
from compress.pruning.elements import magnitude_elements
from compress.pruning.importance import magnitude_importance
from compress.pruning.units import cut_heads
from compress.pruning.width import narrow
from edgebert.errors import InputError
from tests.compress.prune_models import FAMILIES, HEADS, HIDDEN, SIZE, build, logits, prune_settings
from tests.compress.tiny_tasks import write_task

HEADS_OF_TASKS = ("ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")


def doubled(family: str, head: str):
    """Make a model, and one of twice its width whose second half nothing reads.

    Each dimension is there twice, so a LayerNorm's mean and variance are the narrow model's.
    """
    small = build(family, head)
    sizes = {"hidden_size": 2 * HIDDEN, "num_attention_heads": 2 * HEADS}
    if family == "DistilBert":
        sizes |= {"dim": 2 * HIDDEN, "n_heads": 2 * HEADS}
    if small.config.to_dict().get("embedding_size") == HIDDEN:
        sizes["embedding_size"] = 2 * HIDDEN
    wide = build(family, head, **sizes)
    linears = {f"{n}.weight" for n, m in wide.named_modules() if isinstance(m, nn.Linear)}
    values = dict(small.named_parameters())
    with torch.no_grad():
        for name, parameter in wide.named_parameters():
            value = values[name]
            for axis in range(value.dim()):
                if parameter.shape[axis] != value.shape[axis]:
                    reads = name in linears and axis == 1
                    other = torch.zeros_like(value) if reads else value
                    value = torch.cat([value, other], dim=axis)
            parameter.copy_(value)
    return small, wide


@pytest.mark.parametrize("head", HEADS_OF_TASKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_without_dimensions_that_nothing_reads_a_model_gives_what_it_gave(family, head, tmp_path):
    small, wide = doubled(family, head)
    if head != "ForMaskedLM":  # whose table also reads the second half, as it is tied
        torch.testing.assert_close(logits(wide), logits(small), atol=1e-4, rtol=1e-4)
    first = {name: torch.zeros_like(one) for name, one in wide.named_parameters()}
    for name, one in small.named_parameters():
        first[name][tuple(map(slice, one.shape))] = 1  # the first half matters alone
    heads = torch.tensor([[1.0] * HEADS + [0.0] * HEADS] * 2)
    made = narrow(wide, first, heads, count=HEADS)
    assert made.hidden.tolist() == list(range(HIDDEN))
    assert made.heads == [list(range(HEADS))] * 2
    made.model.save_pretrained(tmp_path)
    again = getattr(transformers, family + head).from_pretrained(tmp_path).eval()
    assert again.config.hidden_size == HIDDEN
    assert again.config.num_attention_heads == HEADS
    torch.testing.assert_close(logits(again), logits(small), atol=1e-5, rtol=1e-5)


def test_a_dimension_matters_as_the_sum_of_all_its_weights_does():
    model = build("Bert")
    dice = torch.Generator().manual_seed(3)
    elements = {name: torch.rand(p.shape, generator=dice) for name, p in model.named_parameters()}
    made = narrow(model, elements, torch.rand(2, HEADS, generator=dice), count=3)
    reads = ("query.weight", "key.weight", "value.weight", "intermediate.dense.weight")
    sums = torch.zeros(HIDDEN)
    for name, values in elements.items():
        if name.endswith("pooler.dense.weight") or name.endswith(reads):
            sums += values.sum(dim=0)
        elif "embeddings.weight" in name or "embeddings.LayerNorm" in name:
            sums += values.reshape(-1, HIDDEN).sum(dim=0)
        elif "output" in name:
            sums += values.reshape(HIDDEN, -1).sum(dim=1)
    expected = sorted(sorted(range(HIDDEN), key=lambda one: -float(sums[one]))[: 3 * SIZE])
    assert made.hidden.tolist() == expected
    neurons = elements["bert.pooler.dense.weight"].sum(dim=1) + elements["classifier.weight"].sum(0)
    neurons += elements["bert.pooler.dense.bias"]
    kept = sorted(sorted(range(HIDDEN), key=lambda one: -float(neurons[one]))[: 3 * SIZE])
    expected_rows = model.bert.pooler.dense.weight[kept][:, made.hidden]
    assert torch.equal(made.model.bert.pooler.dense.weight, expected_rows)
    assert torch.equal(made.model.classifier.weight, model.classifier.weight[:, kept])


def test_the_model_that_is_narrowed_stays_as_it_was():
    model = build("Bert")
    before = copy.deepcopy(model.state_dict())
    made = narrow(model, magnitude_elements(model), magnitude_importance(model).heads, count=2)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert made.model.config.hidden_size == 2 * SIZE
    assert model.config.hidden_size == HIDDEN


def test_heads_that_were_pruned_go_with_the_width_first():
    model = build("Bert")
    cut_heads(model, [[0, 2], [1]])
    heads = torch.tensor([[9.0, 1.0, 9.0, 2.0], [3.0, 9.0, 1.0, 2.0]])
    made = narrow(model, magnitude_elements(model), heads, count=3)
    assert made.heads == [[0, 1, 3], [0, 2, 3]]
    assert pruned_heads(made.model) == [[0], []]
    assert made.model.config.edgebert_pruned_heads == {"0": [0]}


def test_a_width_goes_in_rounds_and_transformers_opens_it(lab, tmp_path):
    config = prune_settings(
        lab, tmp_path / "out", hidden_size=16, rounds=2, num_train_epochs=3, test_file=lab.test
    )
    result = compress.prune(config)
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (settings["hidden_size"], settings["num_attention_heads"]) == (16, 2)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.bert.embeddings.word_embeddings.weight.shape[1] == 16
    assert sum(p.numel() for p in model.parameters()) == result.after.params
    assert [len(one.heads) for one in result.layers] == [2, 2]
    assert all(set(one.heads) <= set(range(4)) for one in result.layers)
    found = compress.evaluate(
        compress.EvaluateConfig(model=str(tmp_path / "out"), max_length=16, dev_file=lab.train)
    )
    assert found["torch/fp32"]["value"] == result.after.dev["accuracy"] > 0.6


@pytest.mark.parametrize("importance", ["taylor", "magnitude", "movement"])
def test_an_embedder_of_another_width_imitates_the_one_that_it_was(lab, tmp_path, importance):
    data = write_task(tmp_path, "feature-extraction")
    config = prune_settings(
        lab,
        tmp_path / "out",
        model=str(lab.embedder),
        task="feature-extraction",
        train_file=data,
        dev_file=data,
        hidden_size=24,
        num_train_epochs=1,
        importance=importance,
    )
    result = compress.prune(config)
    assert result.after.hidden_size == 24
    assert result.rounds[0].recovered


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (20, "must be a multiple of 8, .* got 20. Nearest: 16 or 24"),
        (30, "got 30. Nearest: 24."),
        (4, "got 4. Nearest: 8."),
        (32, "must be below the model's 32, got 32"),
    ],
)
def test_a_width_that_transformers_could_not_tell_is_refused(lab, tmp_path, width, message):
    with pytest.raises(InputError, match=message):
        compress.prune(prune_settings(lab, tmp_path / "out", hidden_size=width))
    assert not list(tmp_path.iterdir())
