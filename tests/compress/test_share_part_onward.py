"""A model whose layers share a part goes through the other steps, or is refused in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

import compress
import edgebert
from compress.models.shared_bert import SharedBertConfig
from compress.sharing.albert import make_plan
from compress.sharing.result import ShareResult, format_result, load_result
from edgebert.errors import InputError, ModelError
from tests.compress.prune_models import prune_settings
from tests.compress.share_models import share_settings
from tests.compress.steps import distill_settings, flags, run_step, train_settings
from tests.compress.tiny_tasks import write_task

WHOLE = "bert.encoder.layer.{}.intermediate.dense.weight"


@pytest.fixture(scope="module")
def shared(lab, tmp_path_factory) -> tuple[Path, ShareResult]:
    """Two layers of one feed-forward part, recovered."""
    output = tmp_path_factory.mktemp("share") / "shared"
    config = share_settings(lab, output, num_hidden_groups=1, share="ffn", num_train_epochs=10)
    assert run_step("share", *flags(config)) == 0
    return output, load_result(output)


def test_the_step_tells_what_is_shared_and_what_opens_it(shared):
    output, result = shared
    ffn = 32 * 64 + 64 + 64 * 32 + 32 + 2 * 32
    assert result.before.params - result.after.params == ffn
    assert result.after.checkpoint_bytes <= 1.1 * 4 * result.after.params
    assert set(result.starts) == {"mean", "first"}
    assert result.after.dev["accuracy"] > 0.9
    lines = format_result(result).splitlines()
    assert ["sets", "of", "ffn", "weights", "2", "1"] in [line.split() for line in lines]
    assert "transformers opens it after `import compress.models.shared_bert`." in lines
    weights = load_file(output / "model.safetensors")
    assert WHOLE.format(0) in weights
    assert WHOLE.format(1) not in weights


def test_a_checkpoint_is_scored_as_it_was_written(shared, lab):
    output, result = shared
    config = compress.EvaluateConfig(model=str(output), max_length=16, dev_file=lab.train)
    assert compress.evaluate(config)["torch/fp32"]["value"] == result.after.dev["accuracy"]


def test_it_goes_on_as_a_student_and_is_quantized_in_training_with_its_weights_still_one(
    shared, lab, tmp_path
):
    settings = {"student": str(shared[0]), "quantization_aware": "int8", "num_train_epochs": 1}
    report = compress.distill(distill_settings(lab, tmp_path / "on", **settings))
    assert report.student.params == shared[1].after.params
    before, after = (load_file(one / "model.safetensors") for one in (shared[0], tmp_path / "on"))
    assert before.keys() == after.keys()
    assert not before[WHOLE.format(0)].equal(after[WHOLE.format(0)])


@pytest.mark.parametrize("student", ["L=1", "L=2,H=16,A=2,I=32"])
def test_a_new_student_of_it_is_a_bert_whose_layers_share_nothing(shared, lab, tmp_path, student):
    settings = {"teacher": str(shared[0]), "student": student, "num_train_epochs": 1}
    compress.distill(distill_settings(lab, tmp_path / "small", **settings))
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert config["model_type"] == "bert"
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert not {"shared_part", "num_hidden_groups"} & config.keys()


@pytest.mark.onnx
def test_it_is_trimmed_exported_and_run_without_torch_s_files(shared, lab, tmp_path):
    trimmed, bundle = tmp_path / "trimmed", tmp_path / "bundle"
    settings = {"model": str(shared[0]), "corpus": (lab.train,), "output_dir": trimmed}
    sizes = compress.trim(compress.TrimConfig(**settings))
    assert sizes.after.params < sizes.before.params == shared[1].after.params
    own = {"train_file": lab.train, "dev_file": lab.train, "max_length": 16, "threads": 1}
    export = {"model": str(trimmed), "output_dir": bundle, "backend": ("onnx",)}
    result = compress.export(compress.ExportConfig(**own, **export))
    assert all(row.gate.passed for row in result.rows)
    manifest = json.loads((bundle / "edgebert.json").read_text())
    steps = [entry["step"] for entry in manifest["lineage"]]
    assert steps == ["train", "share", "trim", "export"]
    with edgebert.Runtime(bundle, backend="onnx") as runtime:
        found = runtime.classify(["the good film", "the bad film"])
    assert [one.label for one in found] == ["good", "bad"]


@pytest.mark.parametrize(
    "cut",
    [
        {"num_hidden_layers": 1},
        {"sparsity": 0.2},
        {"sparsity": 0.2, "unstructured": True, "importance": "magnitude"},
    ],
)
def test_it_is_not_pruned(shared, lab, tmp_path, cut):
    config = prune_settings(lab, tmp_path / "out", model=str(shared[0]), **cut)
    with pytest.raises(ModelError, match=r"share weights, so nothing can be cut .* made of"):
        compress.prune(config)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", [{"early_exit": True}, {"layerdrop": 0.1}])
def test_it_gets_no_exits_and_drops_no_layers(shared, lab, tmp_path, how):
    config = distill_settings(lab, tmp_path / "out", student=str(shared[0]), **how)
    with pytest.raises(InputError, match="share weights, which a file for each layer would hold"):
        compress.distill(config)


def test_it_is_not_shared_again(lab, tmp_path):
    config = share_settings(lab, tmp_path / "out", num_hidden_groups=1)
    for again in (config, replace(config, share="attention")):
        with pytest.raises(ModelError, match="'edgebert-shared-bert' shares its weights already"):
            make_plan(SharedBertConfig(num_hidden_layers=2), again)


@pytest.mark.parametrize(
    ("task", "name"), [("feature-extraction", "embedder"), ("fill-mask", "masked_lm")]
)
def test_other_tasks_share_a_part_too(lab, tmp_path, task, name):
    data = write_task(tmp_path, task)
    config = share_settings(
        lab,
        tmp_path / "out",
        model=str(getattr(lab, name)),
        task=task,
        train_file=data,
        dev_file=data,
        num_hidden_groups=1,
        share="attention",
        num_train_epochs=1,
        learning_rate=3e-4,
    )
    result = compress.share(config)
    assert result.metric in result.after.dev
    assert result.after.params < result.before.params


def test_it_is_trained_on_with_its_weights_still_one(shared, lab, tmp_path):
    settings = {"model": str(shared[0]), "output_dir": tmp_path / "out", "num_train_epochs": 1}
    compress.train(train_settings(lab, **settings))
    before, after = (load_file(one / "model.safetensors") for one in (shared[0], tmp_path / "out"))
    assert before.keys() == after.keys()
