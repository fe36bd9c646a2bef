"""The steps `train` and `evaluate`: a teacher from a plain encoder, and scores of anything."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import compress
from compress import DistillConfig, EvaluateConfig
from compress.data import hub_dataset
from compress.data.files import BadRows, Table
from compress.models.loading import load_teacher
from compress.report import load_report
from edgebert.errors import DataError, InputError, ModelError
from edgebert.formats.manifest import Manifest
from tests.compress.steps import distill_settings, flags, run_step, train_settings


def test_metrics_json_has_dev_and_test(lab, tmp_path):
    config = train_settings(lab, output_dir=tmp_path / "t", test_file=lab.test)
    compress.train(config)
    metrics = json.loads((tmp_path / "t" / "metrics.json").read_text())
    assert metrics["dev"]["accuracy"] == 1.0
    assert metrics["test"]["accuracy"] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_trained_teacher_names_its_labels(lab):
    loaded = load_teacher(lab.teacher, task="text-classification")
    assert loaded.labels == ("bad", "good")


def test_a_model_with_a_head_is_trained_on(lab, tmp_path):
    config = train_settings(lab, model=str(lab.teacher), output_dir=tmp_path / "t", max_steps=2)
    before = load_teacher(lab.teacher, task="text-classification").model.classifier.weight
    compress.train(config)
    after = load_teacher(tmp_path / "t", task="text-classification").model.classifier.weight
    assert not before.equal(after)


def test_the_command_prints_the_metrics_and_run_json_replays_it(lab, tmp_path, capsys):
    config = train_settings(lab, output_dir=tmp_path / "a")
    assert run_step("train", *flags(config)) == 0
    first = json.loads(capsys.readouterr().out)
    replay = ("--config", str(tmp_path / "a" / "run.json"), "--output-dir", str(tmp_path / "b"))
    assert run_step("train", *replay) == 0
    assert json.loads(capsys.readouterr().out) == first
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b")]
    assert weights[0] == weights[1]


def test_terms_of_ones_own_join_the_fine_tuning(lab, tmp_path):
    seen = []

    def term(features, teacher, batch):
        seen.append((teacher, sorted(batch)))
        return 0.0 * features.logits.sum()

    config = train_settings(lab, output_dir=tmp_path / "t", max_steps=5)
    compress.train(config, extra_terms={"mine": term})
    assert len(seen) == 5
    assert seen[0][0] is None
    assert "labels" in seen[0][1]


@pytest.fixture(scope="module")
def bundle(lab, tmp_path_factory):
    output = tmp_path_factory.mktemp("evaluated") / "student"
    compress.distill(distill_settings(lab, output, test_file=lab.test))
    return output


def test_a_bundle_scores_on_its_engine_what_its_report_says(lab, bundle):
    found = compress.evaluate(EvaluateConfig(model=str(bundle), test_file=lab.test, threads=1))
    rows = {f"{row.backend}/{row.precision}": row.score for row in load_report(bundle).rows}
    assert {name: one["value"] for name, one in found.items()} == rows
    assert {one["rows"] for one in found.values()} == {24}


def test_a_checkpoint_is_scored_in_torch(lab):
    config = EvaluateConfig(model=str(lab.teacher), dev_file=lab.train, max_length=16, threads=1)
    found = compress.evaluate(config)
    assert list(found) == ["torch/fp32"]
    assert (found["torch/fp32"]["value"], found["torch/fp32"]["split"]) == (1.0, "dev")
    assert found["torch/fp32"]["interval"][0] < 1.0


def test_the_command_prints_json_and_writes_it_too(lab, bundle, tmp_path, capsys):
    words = ("--model", str(bundle), "--test-file", str(lab.test), "--threads", "1")
    assert run_step("evaluate", *words, "--output-file", str(tmp_path / "scores.json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "scores.json").read_text()) == printed


def test_labels_that_the_model_does_not_have_are_named_by_line(bundle, tmp_path):
    (tmp_path / "test.tsv").write_text("sentence\tlabel\nthe film\tgreat\n")
    with pytest.raises(DataError, match=r"test\.tsv:2: label 'great'"):
        compress.evaluate(EvaluateConfig(model=str(bundle), test_file=tmp_path / "test.tsv"))


def test_a_model_without_a_head_is_refused(lab):
    with pytest.raises(ModelError, match=r"compress\.train"):
        compress.evaluate(EvaluateConfig(model=str(lab.encoder), test_file=lab.test))


def test_an_embedder_needs_scored_pairs(lab):
    config = EvaluateConfig(
        model=str(lab.embedder), task="feature-extraction", test_file=lab.test, threads=1
    )
    with pytest.raises(InputError, match="--text-pair-column"):
        compress.evaluate(config)


def test_something_to_score_on_must_be_given():
    with pytest.raises(InputError, match="--test-file or --dev-file"):
        EvaluateConfig(model="minilm")


def test_class_weights_that_cannot_count_are_said(lab, tmp_path, caplog):
    config = distill_settings(lab, tmp_path / "b", class_weights=("balanced",), max_steps=2)
    compress.distill(config)
    assert "--hard-weight 0" in caplog.text


@pytest.mark.parametrize(("settings", "named"), [
    ({"temperature": float("nan")}, "temperature"),
    ({"learning_rate": float("nan")}, "learning_rate"),
    ({"warmup_ratio": 1.0}, "warmup_ratio"),
    ({"num_train_epochs": 0}, "num_train_epochs"),
    ({"weight_decay": -1.0}, "weight_decay"),
    ({"weight_decay": float("nan")}, "weight_decay"),
    ({"hidden_weight": float("nan")}, "hidden_weight"),
    ({"cache_size_gb": float("nan")}, "cache_size_gb"),
    ({"cache_size_gb": float("inf")}, "cache_size_gb"),
    ({"learning_rate": float("inf")}, "learning_rate"),
    ({"threads": 0}, "threads"),
    ({"max_length": 2}, "max_length"),
    ({"hard_weight": 1.5}, "hard_weight"),
    ({"intermediate_epochs": 0}, "intermediate_epochs"),
])  # fmt: skip
def test_a_setting_that_means_nothing_is_refused_by_its_name(settings, named):
    with pytest.raises(InputError, match=named):
        DistillConfig(teacher="base", **settings)


@pytest.fixture
def hub_tables(monkeypatch):
    def give(**tables):
        monkeypatch.setattr(hub_dataset, "read_hub_dataset", lambda _: tables)

    return give


def table(labels, name="made up"):
    columns = {"sentence": [f"the {label} film" for label in labels], "label": list(labels)}
    return Table(columns, list(range(1, len(labels) + 1)), BadRows(name, unit="row"))


def test_a_dataset_without_test_or_dev_of_its_own_is_refused(bundle, hub_tables):
    hub_tables(train=table(["good", "bad"] * 20))
    with pytest.raises(DataError, match="no labelled test or dev split"):
        compress.evaluate(EvaluateConfig(model=str(bundle), dataset="some/set", threads=1))


def test_a_datasets_own_dev_split_is_scored_whole(bundle, hub_tables):
    hub_tables(train=table(["good", "bad"]), dev=table(["good", "bad", "good"]))
    found = compress.evaluate(EvaluateConfig(model=str(bundle), dataset="some/set", threads=1))
    assert (found["onnx/fp32"]["rows"], found["onnx/fp32"]["split"]) == (3, "dev")


@pytest.mark.parametrize(("takes", "has"), [(False, "pairs of texts"), (True, "single texts")])
def test_pairs_for_a_bundle_of_single_texts_are_refused_and_the_reverse(
    bundle, tmp_path, takes, has
):
    shutil.copytree(bundle, tmp_path / "b")
    replace(Manifest.load(bundle), pairs=takes).save(tmp_path / "b")
    head = "sentence" if takes else "sentence1\tsentence2"
    text = "the film" if takes else "the film\tthe plot"
    (tmp_path / "test.tsv").write_text(f"{head}\tlabel\n{text}\tgood\n")
    config = EvaluateConfig(model=str(tmp_path / "b"), test_file=tmp_path / "test.tsv", threads=1)
    with pytest.raises(DataError, match=f"has {has}"):
        compress.evaluate(config)


def test_a_bundle_says_how_its_labels_are_written(bundle, tmp_path):
    shutil.copytree(bundle, tmp_path / "b")
    kind = "multi_label_classification"
    replace(Manifest.load(bundle), problem_type=kind).save(tmp_path / "b")
    (tmp_path / "test.tsv").write_text("sentence\tlabel\nthe film\tgood|bad\n")
    config = EvaluateConfig(model=str(tmp_path / "b"), test_file=tmp_path / "test.tsv", threads=1)
    assert compress.evaluate(config)["onnx/fp32"]["metric"] == "micro_f1"


def test_rows_of_fill_mask_are_the_texts_that_were_scored(lab, tmp_path):
    (tmp_path / "test.txt").write_text("the good film\n" * 501)
    config = EvaluateConfig(
        model=str(lab.masked_lm),
        task="fill-mask",
        test_file=tmp_path / "test.txt",
        max_length=16,
        threads=1,
    )
    assert compress.evaluate(config)["torch/fp32"]["rows"] == 500
