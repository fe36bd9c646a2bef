"""Single weights that become zero: how many, when, which, and that nobody calls it fast."""

from __future__ import annotations

import gzip
import json

import pytest
import torch
import transformers
from torch import nn

import compress
from compress.distillation.pruning_rounds import training_passes
from compress.pruning import sparse
from compress.pruning.result import format_result, load_result
from compress.pruning.sparse import WeightMask, cubic_sparsity, growing_zeros, zero_share
from edgebert.errors import InputError
from tests.compress.prune_models import batch, build, linears, prune_settings
from tests.compress.steps import flags, run_step

MATRICES = ("query", "value", "out", "up", "down")


def shares(model) -> list[float]:
    """Give the part of zeros in some matrices of both layers."""
    weights = [linears(model, layer)[name].weight for layer in range(2) for name in MATRICES]
    return [float((weight == 0).float().mean()) for weight in weights]


def test_sparsity_rises_by_a_cube_and_then_stays():
    found = [cubic_sparsity(done, 9, final=0.8) for done in range(9)]
    # three quarters of the 8 passes after the first: 6
    expected = [0.8 * (1 - (5 / 6) ** 3), 0.8 * (1 - 1 / 8)]
    assert found[0] == 0.0
    assert [found[1], found[3]] == pytest.approx(expected)
    assert found[6:] == [0.8, 0.8, 0.8]


def test_movement_follows_the_slope_in_front_of_the_mask():
    mask = WeightMask(torch.zeros(2, 2), moves=True)
    weight = nn.Parameter(torch.tensor([[1.0, -2.0], [3.0, 4.0]]))
    mask.mask.copy_(torch.tensor([[True, False], [True, True]]))
    slopes = torch.tensor([[0.5, 1.0], [-2.0, 0.0]])
    for _ in range(2):
        (mask(weight) * slopes).sum().backward()
    # a masked weight moves too, by what the loss would say of it
    assert mask.movement is not None
    assert mask.movement.tolist() == [[-1.0, 4.0], [12.0, 0.0]]
    assert weight.grad is not None
    assert weight.grad.tolist() == [[1.0, 0.0], [-4.0, 0.0]]  # the weight itself has none
    mask.renew(weight.detach(), 0.5)
    assert mask.mask.tolist() == [[False, True], [True, False]]


def test_magnitude_masks_the_smallest_weights():
    mask = WeightMask(torch.zeros(4), moves=False)
    mask.renew(torch.tensor([0.3, -0.1, -2.0, 0.2]), 0.5)
    assert mask.mask.tolist() == [True, False, True, False]


@pytest.mark.parametrize("importance", ["magnitude", "movement"])
def test_zeros_grow_while_a_model_is_trained_and_stay(importance):
    model = build("Bert")
    names = set(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = []
    with growing_zeros(model, sparsity=0.75, passes=9, importance=importance):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(9):
            model.train()
            model(**batch(), labels=torch.tensor([0, 1])).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                model(**batch())  # a measurement counts for nothing
            seen.append(shares(model)[0])
    wanted = [cubic_sparsity(done, 9, final=0.75) for done in range(9)]
    assert seen == pytest.approx(wanted, abs=1e-3)
    assert shares(model) == pytest.approx([0.75] * len(shares(model)), abs=1e-3)
    assert set(model.state_dict()) == names
    assert not hasattr(model, "pruning_passes")
    zeros, weights = zero_share(model)
    assert zeros == pytest.approx(0.75 * weights, abs=12)


@pytest.fixture(scope="module", params=["magnitude", "movement"])
def sparse_run(request, lab, tmp_path_factory):
    """A model with three quarters of its weights at zero."""
    output = tmp_path_factory.mktemp("sparse") / request.param
    config = prune_settings(
        lab,
        output,
        sparsity=0.75,
        unstructured=True,
        importance=request.param,
        num_train_epochs=3,
        save_steps=4,
    )
    return config, compress.prune(config)


def test_a_part_of_each_matrix_is_zero_and_all_else_is_left(sparse_run, lab):
    config, result = sparse_run
    maker = transformers.AutoModelForSequenceClassification
    model = maker.from_pretrained(config.output_dir)
    assert shares(model) == pytest.approx([0.75] * len(shares(model)), abs=1e-3)
    assert model.bert.embeddings.word_embeddings.weight[1:].all()
    assert result.after.params == result.before.params
    assert result.after.size_bytes == result.before.size_bytes
    assert result.unstructured is not None
    assert result.unstructured.zeros == pytest.approx(0.75 * result.unstructured.weights, abs=12)
    found = compress.evaluate(
        compress.EvaluateConfig(model=str(config.output_dir), max_length=16, dev_file=lab.train)
    )
    assert found["torch/fp32"]["value"] == result.after.dev["accuracy"]


def test_zeros_are_called_no_faster_and_weighed_as_gzip_does(sparse_run, lab):
    config, result = sparse_run
    zeros = result.unstructured
    for size, folder in (
        (zeros.gzip_before_bytes, lab.teacher),
        (zeros.gzip_after_bytes, config.output_dir),
    ):
        packed = gzip.compress((folder / "model.safetensors").read_bytes(), 6)
        assert size == pytest.approx(len(packed), abs=64)
    assert zeros.gzip_after_bytes < 0.8 * zeros.gzip_before_bytes
    assert result.speed.engine == "torch"
    told = json.loads((config.output_dir / "prune.json").read_text())
    assert told["unstructured"]["faster"] is False
    assert told["speedup"] == told["speed"]["before_ms"] / told["speed"]["after_ms"]
    (line,) = [one for one in format_result(result).splitlines() if "faster" in one]
    assert line.startswith("no faster: 75.0 % of the layers' weights are zeros")
    assert f"measured {result.speedup:.2f} times as fast" in line
    assert load_result(config.output_dir) == result


def test_an_interrupted_growth_goes_on_to_the_same_weights(sparse_run, tmp_path, monkeypatch):
    import dataclasses

    done, _ = sparse_run
    config = dataclasses.replace(done, output_dir=tmp_path / "out")
    cubic, calls = sparse.cubic_sparsity, []

    def interrupted(*args, **named):
        calls.append(args)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return cubic(*args, **named)

    monkeypatch.setattr(sparse, "cubic_sparsity", interrupted)
    with pytest.raises(KeyboardInterrupt, match="--resume"):
        compress.prune(config)
    monkeypatch.setattr(sparse, "cubic_sparsity", cubic)
    assert run_step("prune", *flags(config), "--resume") == 0
    one, two = (path / "model.safetensors" for path in (done.output_dir, config.output_dir))
    assert one.read_bytes() == two.read_bytes()


def test_zeros_can_be_made_at_once_without_a_recovery(lab, tmp_path):
    config = prune_settings(
        lab,
        tmp_path / "out",
        sparsity=0.5,
        unstructured=True,
        importance="magnitude",
        num_train_epochs=0,
    )
    compress.prune(config)
    maker = transformers.AutoModelForSequenceClassification
    before, after = (maker.from_pretrained(one) for one in (lab.teacher, tmp_path / "out"))
    was, now = linears(before, 1)["up"].weight, linears(after, 1)["up"].weight
    limit = was.abs().flatten().median()
    assert torch.equal(now, torch.where(was.abs() > limit, was, 0))


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({}, 2 * 5),
        ({"max_steps": 7}, 7),
        # 3 updates of an epoch: of 2, 2 and 1 batches
        ({"max_steps": 4, "gradient_accumulation_steps": 2}, 5 + 2),
        ({"max_steps": 3, "gradient_accumulation_steps": 2}, 5),
        ({"max_steps": 2, "gradient_accumulation_steps": 8}, 10),
    ],
)
def test_passes_are_the_batches_that_a_training_sees(lab, tmp_path, changes, passes):
    config = prune_settings(lab, tmp_path, sparsity=0.5, num_train_epochs=2, **changes)
    assert training_passes(config, 5) == passes


def test_a_training_of_one_batch_has_no_time_for_zeros_to_grow(lab, tmp_path):
    config = prune_settings(
        lab,
        tmp_path / "out",
        sparsity=0.5,
        unstructured=True,
        importance="movement",
        max_steps=1,
    )
    with pytest.raises(InputError, match="and 1 is too few"):
        compress.prune(config)
