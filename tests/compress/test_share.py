"""A checkpoint that shares: transformers opens it, each weight is there once, its cost is told."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

import compress
from compress.distillation import recovery
from compress.sharing.result import ShareResult, format_result, load_result
from tests.compress.share_models import share_settings
from tests.compress.steps import flags, run_step
from tests.compress.tiny_tasks import write_task


@pytest.fixture(scope="module")
def shared(lab, tmp_path_factory) -> tuple[Path, ShareResult]:
    """Two layers in one, in half of the embeddings' width, recovered."""
    output = tmp_path_factory.mktemp("share") / "shared"
    config = share_settings(
        lab, output, num_hidden_groups=1, embedding_size=16, test_file=lab.test, num_train_epochs=10
    )
    return output, compress.share(config)


def test_transformers_opens_it_as_an_albert_with_each_weight_once(shared):
    output, result = shared
    model = transformers.AutoModelForSequenceClassification.from_pretrained(output)
    assert type(model).__name__ == "AlbertForSequenceClassification"
    sizes = [model.config.num_hidden_layers, model.config.num_hidden_groups]
    assert [*sizes, model.config.embedding_size] == [2, 1, 16]
    weights = load_file(output / "model.safetensors")
    assert set(weights) == set(model.state_dict())
    params = sum(one.numel() for one in weights.values())
    assert result.after.params == params == sum(one.numel() for one in model.parameters())
    assert result.after.size_bytes == 4 * params
    assert result.after.checkpoint_bytes == (output / "model.safetensors").stat().st_size
    assert result.after.checkpoint_bytes <= 1.1 * 4 * params


def test_as_many_parameters_are_gone_as_by_hand(shared):
    _, result = shared
    a_layer = 4 * (32 * 32 + 32) + 32 * 64 + 64 + 64 * 32 + 32 + 4 * 32
    vocab = json.loads((shared[0] / "config.json").read_text())["vocab_size"]
    tables = 16 * (vocab + 512 + 2) + 2 * 16  # half of each table and of their norm
    mapping = 16 * 32 + 32
    assert result.before.params - result.after.params == a_layer + tables - mapping
    assert (result.before.num_hidden_groups, result.before.embedding_size) == (2, 32)


def test_every_start_and_the_recovery_are_measured(shared):
    _, result = shared
    assert set(result.starts) == {"mean", "first"}
    scores = {name: dev["accuracy"] for name, dev in result.starts.items()}
    assert scores[result.start] == max(scores.values())
    assert result.after.dev["accuracy"] > max(scores.values())


@pytest.mark.parametrize(("dev", "taken"), [((0.4, 0.6), "first"), ((0.6, 0.4), "mean")])
def test_the_start_that_is_better_on_dev_is_taken(lab, tmp_path, monkeypatch, dev, taken):
    found = iter(dev)  # of the mean, of the first layer

    class Score(recovery.DevScore):
        def __call__(self, model):
            albert = model.config.model_type == "albert"
            return {"accuracy": next(found, 0.9)} if albert else super().__call__(model)

    monkeypatch.setattr(recovery, "DevScore", Score)
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1, num_train_epochs=0)
    result = compress.share(config)
    assert result.start == taken
    assert [one["accuracy"] for one in result.starts.values()] == list(dev)
    own, weights = (load_file(p / "model.safetensors") for p in (lab.teacher, tmp_path / "out"))
    name = "encoder.layer.{}.intermediate.dense.weight"
    layers = [own[f"bert.{name.format(layer)}"] for layer in (0, 1)]
    expected = layers[0] if taken == "first" else (layers[0] + layers[1]) / 2
    group = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight"
    torch.testing.assert_close(weights[group], expected)


def test_the_written_model_scores_as_written(shared, lab):
    output, result = shared
    for side, model in ((result.before, lab.teacher), (result.after, output)):
        for name, metrics in (("dev", side.dev), ("test", side.test)):
            data = {f"{name}_file": lab.train if name == "dev" else lab.test}
            config = compress.EvaluateConfig(model=str(model), max_length=16, **data)
            assert compress.evaluate(config)["torch/fp32"]["value"] == metrics["accuracy"]


def test_a_user_is_told_what_sharing_does_not_save(shared):
    _, result = shared
    lines = format_result(result).splitlines()
    assert ["layers", "computed", "2", "2"] in [line.split() for line in lines]
    assert ["sets", "of", "weights", "2", "1"] in [line.split() for line in lines]
    assert ["embedding", "width", "32", "16"] in [line.split() for line in lines]
    assert "Sharing saves bytes, not time: as many layers are computed as before." in lines
    assert "\n".join(lines).isascii()


def test_a_model_at_chance_is_told(shared):
    _, result = shared
    text = format_result(replace(result, warnings=("nothing is left",)))
    assert text.splitlines()[-1] == "WARNING: nothing is left"


def test_a_run_is_written_replayed_and_read(shared, tmp_path, capsys):
    output, result = shared
    assert json.loads((output / "share.json").read_text()) == json.loads(json.dumps(asdict(result)))
    assert load_result(output) == result
    again = tmp_path / "again"
    assert run_step("share", "--config", str(output / "run.json"), "--output-dir", str(again)) == 0
    assert (again / "model.safetensors").read_bytes() == (output / "model.safetensors").read_bytes()
    assert capsys.readouterr().out.strip() == format_result(load_result(again)).strip()


def test_an_interrupted_run_goes_on_to_the_same_weights(shared, lab, tmp_path, monkeypatch):
    output, result = shared
    train_loop = recovery.train_student.__globals__["train_loop"]

    def interrupted(**named):
        step, calls = named["step"], []

        def stopping(items):
            calls.append(items)
            if len(calls) == 7:
                raise KeyboardInterrupt
            return step(items)

        return train_loop(**{**named, "step": stopping})

    config = replace(
        share_settings(lab, tmp_path / "out", num_hidden_groups=1, embedding_size=16),
        test_file=lab.test,
        num_train_epochs=10,
    )
    monkeypatch.setattr("compress.distillation.imitate.train_loop", interrupted)
    with pytest.raises(KeyboardInterrupt, match="--resume"):
        compress.share(config)
    monkeypatch.setattr("compress.distillation.imitate.train_loop", train_loop)
    assert run_step("share", *flags(config), "--resume") == 0
    found = load_file(tmp_path / "out" / "model.safetensors")
    for name, value in load_file(output / "model.safetensors").items():
        assert torch.equal(value, found[name]), name
    assert compress.share(replace(config, resume=True)) == load_result(tmp_path / "out")
    assert load_result(tmp_path / "out").after.dev == result.after.dev


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("how", [{"embedding_size": 16}, {"share": "ffn", "num_hidden_groups": 1}])
def test_the_tokenizer_stays_what_it_was(lab, tmp_path, named, how):
    model = tmp_path / "model"
    shutil.copytree(lab.teacher, model)
    if not named:  # as in older checkpoints, where the family alone says which class it is
        settings = json.loads((model / "tokenizer_config.json").read_text())
        del settings["tokenizer_class"]
        (model / "tokenizer_config.json").write_text(json.dumps(settings))
    config = share_settings(lab, tmp_path / "out", model=str(model), num_train_epochs=0, **how)
    compress.share(config)
    before, after = (
        transformers.AutoTokenizer.from_pretrained(p) for p in (model, config.output_dir)
    )
    text = "the film is good, hello!"
    assert type(after) is type(before)
    assert after(text)["input_ids"] == before(text)["input_ids"]


@pytest.mark.parametrize(
    ("task", "name"), [("feature-extraction", "embedder"), ("fill-mask", "masked_lm")]
)
def test_other_tasks_are_recovered_by_their_own_loss(lab, tmp_path, task, name):
    data = write_task(tmp_path, task)
    config = share_settings(
        lab,
        tmp_path / "out",
        model=str(getattr(lab, name)),
        task=task,
        train_file=data,
        dev_file=data,
        num_hidden_groups=1,
        num_train_epochs=1,
        learning_rate=3e-4,  # at ten times that the vectors collapse, and that is refused
        **({"embedding_size": 16} if task == "feature-extraction" else {}),
    )
    result = compress.share(config)
    assert result.after.num_hidden_groups == 1
    assert result.metric in result.after.dev
    if task == "feature-extraction":
        assert (tmp_path / "out" / "modules.json").is_file()
        assert (tmp_path / "out" / "1_Pooling" / "config.json").is_file()
