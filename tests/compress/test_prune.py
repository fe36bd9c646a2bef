"""A pruned checkpoint: as small as promised, opened by transformers, honest about what it costs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

import compress
from compress.distillation import pruning_rounds, recovery
from compress.models.heads import pruned_heads
from compress.pruning.result import PruneResult, format_result, load_result
from compress.pruning.units import cut_neurons
from edgebert.errors import InputError
from tests.compress.prune_models import linears, mask_inputs, places_of, prune_settings
from tests.compress.steps import flags, run_step
from tests.compress.tiny_tasks import write_task

WIDTH, HEADS, NEURONS, LAYERS = 32, 4, 64, 2  # of the tiny models
A_HEAD, A_NEURON = 4 * 8 * WIDTH + 3 * 8, 2 * WIDTH + 1


def opened(path: Path) -> Any:
    return transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()


def count(path: Path, *, part: str = "") -> int:
    """Count the parameters in a file whose names have a part."""
    weights = load_file(path / "model.safetensors")
    return sum(value.numel() for name, value in weights.items() if part in name)


def logits(model: Any) -> torch.Tensor:
    ids = torch.arange(5, 45).reshape(2, 20)
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=ids).logits
    return found


@pytest.fixture(scope="module")
def shot(lab, tmp_path_factory) -> tuple[Path, PruneResult]:
    """Half of a model, cut at once by magnitude."""
    output = tmp_path_factory.mktemp("prune") / "shot"
    config = prune_settings(lab, output, sparsity=0.5, importance="magnitude", num_train_epochs=0)
    return output, compress.prune(config)


@pytest.fixture(scope="module")
def recovered(lab, tmp_path_factory) -> tuple[Path, PruneResult]:
    """Half of a model, cut in two rounds by the gradient of the loss."""
    output = tmp_path_factory.mktemp("prune") / "recovered"
    return output, compress.prune(
        prune_settings(lab, output, sparsity=0.5, rounds=2, test_file=lab.test)
    )


@pytest.mark.parametrize("name", ["shot", "recovered"])
def test_as_many_parameters_are_gone_as_was_promised(name, lab, request):
    output, result = request.getfixturevalue(name)
    zeros = sum(map(len, pruned_heads(opened(output)))) * A_HEAD
    before, after = (count(path, part="encoder.") for path in (lab.teacher, output))
    assert result.before.layer_params == before
    assert result.after.layer_params == after - zeros
    assert result.after.params == count(output) - zeros
    gone = 1 - (after - zeros) / before
    assert abs(gone - 0.5) <= LAYERS * A_NEURON / before
    assert result.after.size_bytes == 4 * result.after.params
    assert result.after.checkpoint_bytes == (output / "model.safetensors").stat().st_size


def test_transformers_gives_what_the_model_gave_with_masks(lab, shot):
    output, result = shot
    masked, kept = opened(lab.teacher), opened(output)
    for layer in range(LAYERS):
        parts = linears(masked, layer)
        up, down = parts["up"].weight, parts["down"].weight
        weights = ((up**2).sum(dim=1) * (down**2).sum(dim=0)).tolist()
        least = sorted(range(NEURONS), key=weights.__getitem__)[: NEURONS - result.after.neurons]
        mask_inputs(parts["down"], least)
        gone = [head for head in range(HEADS) if head not in result.layers[layer].heads]
        mask_inputs(parts["out"], places_of(gone))
        assert linears(kept, layer)["up"].weight.shape == (result.after.neurons, WIDTH)
    torch.testing.assert_close(logits(kept), logits(masked), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["shot", "recovered"])
def test_the_heads_that_are_noted_are_zeros(name, request):
    output, result = request.getfixturevalue(name)
    noted = json.loads((output / "config.json").read_text())["edgebert_pruned_heads"]
    zero = pruned_heads(opened(output))
    assert noted == {str(layer): heads for layer, heads in enumerate(zero) if heads}
    assert [set(range(HEADS)) - set(heads) for heads in zero] == [
        set(one.heads) for one in result.layers
    ]
    assert sum(map(len, zero)) == 4  # half of eight


def test_every_cut_and_recovery_is_measured(recovered):
    _, result = recovered
    assert [one.recovered is not None for one in result.rounds] == [True, True]
    params = [one.params for one in result.rounds]
    assert params[0] > params[1] == result.after.params
    assert result.after.dev == result.rounds[-1].recovered
    assert result.after.dev["accuracy"] > result.rounds[0].cut["accuracy"]
    assert result.before.dev["accuracy"] == 1.0


def test_the_written_model_scores_as_written(recovered, lab):
    output, result = recovered
    for side, model in ((result.before, lab.teacher), (result.after, output)):
        for name, metrics in (("dev", side.dev), ("test", side.test)):
            data = {f"{name}_file": lab.train if name == "dev" else lab.test}
            config = compress.EvaluateConfig(model=str(model), max_length=16, **data)
            found = compress.evaluate(config)["torch/fp32"]
            assert found["value"] == metrics["accuracy"]


def test_a_cut_to_chance_is_said(lab, tmp_path, monkeypatch, caplog):
    def cut_all(model, importance, count):
        cut_neurons(model, importance, count)
        model.classifier.weight.data.zero_()  # one answer to all: right for half of the rows

    monkeypatch.setattr(pruning_rounds, "cut_neurons", cut_all)
    result = compress.prune(prune_settings(lab, tmp_path / "out", sparsity=0.2, num_train_epochs=0))
    assert result.after.dev["accuracy"] == 0.5
    (said,) = result.warnings
    assert "accuracy on dev is 0.5000, no better than always answering" in said
    assert said in caplog.messages
    assert f"WARNING: {said}" in format_result(result).splitlines()


def test_layers_by_magnitude_are_evenly_spaced_and_kept_whole(lab, tmp_path):
    config = prune_settings(
        lab, tmp_path / "out", num_hidden_layers=1, importance="magnitude", num_train_epochs=0
    )
    result = compress.prune(config)
    before, after = (load_file(p / "model.safetensors") for p in (lab.teacher, tmp_path / "out"))
    assert [one.layer for one in result.layers] == [1]
    assert set(after) == {name for name in before if ".layer.1." not in name}
    assert all(torch.equal(before[name], after[name]) for name in after)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["num_hidden_layers"] == 1


def test_a_target_size_is_met_by_the_fewest_neurons(lab, tmp_path):
    result = compress.prune(
        prune_settings(lab, tmp_path / "out", target_size="0.13MB", rounds=2, num_train_epochs=0)
    )
    size = 4 * count(tmp_path / "out")
    assert size <= 130_000 < size + 4 * LAYERS * A_NEURON
    assert result.after.heads == LAYERS * HEADS
    assert result.after.size_bytes == size


@pytest.mark.parametrize(("units", "left"), [("heads", NEURONS), ("neurons", None)])
def test_one_kind_of_unit_alone_can_be_cut(lab, tmp_path, units, left):
    config = prune_settings(lab, tmp_path / "out", sparsity=0.25, units=units, num_train_epochs=0)
    result = compress.prune(config)
    assert (result.after.heads < LAYERS * HEADS) == (units == "heads")
    assert (result.after.neurons == NEURONS) == (left == NEURONS)
    gone = 1 - result.after.layer_params / result.before.layer_params
    step = A_HEAD if units == "heads" else LAYERS * A_NEURON
    assert abs(gone - 0.25) <= step / result.before.layer_params


def test_a_run_is_written_replayed_and_read(shot, tmp_path, capsys):
    output, result = shot
    assert json.loads((output / "prune.json").read_text()) == json.loads(json.dumps(asdict(result)))
    assert load_result(output) == result
    again = tmp_path / "again"
    assert run_step("prune", "--config", str(output / "run.json"), "--output-dir", str(again)) == 0
    assert (again / "model.safetensors").read_bytes() == (output / "model.safetensors").read_bytes()
    table = capsys.readouterr().out
    assert table.isascii()
    assert ["neurons", "a", "layer", "64", f"{result.after.neurons}"] in [
        line.split() for line in table.splitlines()
    ]


def test_an_interrupted_run_goes_on_to_the_same_weights(recovered, lab, tmp_path, monkeypatch):
    output, result = recovered
    train_student, calls = recovery.train_student, []

    def interrupted(*args, **named):
        calls.append(named["work"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train_student(*args, **named)

    config = prune_settings(lab, tmp_path / "out", sparsity=0.5, rounds=2, test_file=lab.test)
    monkeypatch.setattr(recovery, "train_student", interrupted)
    with pytest.raises(KeyboardInterrupt, match="--resume"):
        compress.prune(config)
    monkeypatch.setattr(recovery, "train_student", train_student)
    assert run_step("prune", *flags(config), "--resume") == 0
    assert load_result(tmp_path / "out").rounds == result.rounds
    for name, value in load_file(output / "model.safetensors").items():
        assert torch.equal(value, load_file(tmp_path / "out" / "model.safetensors")[name]), name
    again = prune_settings(
        lab, tmp_path / "out", sparsity=0.5, rounds=2, test_file=lab.test, resume=True
    )
    assert compress.prune(again) == load_result(tmp_path / "out")


def test_a_pruned_model_is_pruned_further(lab, tmp_path):
    config = prune_settings(
        lab, tmp_path / "first", sparsity=0.2, importance="magnitude", num_train_epochs=2
    )
    first = compress.prune(config)
    config = prune_settings(lab, tmp_path / "out", model=str(tmp_path / "first"), sparsity=0.3)
    result = compress.prune(config)
    assert result.before.layer_params == first.after.layer_params
    for one, two in zip(first.layers, result.layers, strict=True):
        assert set(two.heads) <= set(one.heads)


def test_an_embedder_keeps_its_files_and_needs_no_labels(lab, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(lab.train.read_text().splitlines()[1:]) + "\n")
    own = {"train_file": texts, "dev_file": texts, "task": "feature-extraction"}
    config = prune_settings(
        lab,
        tmp_path / "out",
        model=str(lab.embedder),
        sparsity=0.4,
        importance="magnitude",
        num_train_epochs=1,
        **own,
    )
    result = compress.prune(config)
    assert result.metric == "pearson"
    assert (tmp_path / "out" / "modules.json").is_file()
    assert (tmp_path / "out" / "1_Pooling" / "config.json").is_file()
    with pytest.raises(InputError, match="--importance magnitude"):
        compress.prune(
            prune_settings(lab, tmp_path / "other", model=str(lab.embedder), sparsity=0.4, **own)
        )


@pytest.mark.parametrize(
    ("task", "name"), [("feature-extraction", "embedder"), ("fill-mask", "masked_lm")]
)
@pytest.mark.parametrize("goal", [{"sparsity": 0.3}, {"num_hidden_layers": 1}])
def test_other_tasks_are_pruned_by_their_own_loss(lab, tmp_path, task, name, goal):
    data = write_task(tmp_path, task)
    config = prune_settings(
        lab,
        tmp_path / "out",
        model=str(getattr(lab, name)),
        task=task,
        train_file=data,
        dev_file=data,
        num_train_epochs=1,
        **goal,
    )
    result = compress.prune(config)
    assert result.after.layer_params < result.before.layer_params
    assert result.rounds[0].recovered
