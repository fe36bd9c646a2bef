"""What a distillation does beside training: its teacher, its report, its command, its refusals."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import compress
import edgebert
from compress.artifacts import make as artifacts
from compress.data.load import load_data, make_split
from compress.models import teachers
from compress.models.loading import load_teacher
from compress.options import parse_config
from compress.report import load_report
from compress.reporting.records import GateRecord
from compress.training.phase import LOGITS, Term
from edgebert.errors import GateError, InputError, ModelError
from edgebert.formats.manifest import Manifest
from tests.compress.steps import distill_settings, flags, run_step
from tests.tiny import write_classifier


@pytest.fixture(scope="module")
def bundle(lab, tmp_path_factory):
    """A student of the fine-tuned teacher, with a test split."""
    output = tmp_path_factory.mktemp("distilled") / "student"
    compress.distill(distill_settings(lab, output, test_file=lab.test, num_train_epochs=12))
    return output


def test_report_json_has_the_fields_of_the_design(bundle):
    report = json.loads((bundle / "report.json").read_text())
    teacher, student = report["teacher"], report["student"]
    assert teacher["size_bytes"] == 4 * teacher["params"]
    assert teacher["score"] == 1.0
    assert student["params"] < teacher["params"]
    assert (report["metric"], report["split"]) == ("accuracy", "test")
    assert {name: part["rows"] for name, part in report["data"].items()} == {
        "train": 80,
        "dev": 80,
        "test": 24,
    }
    assert all(len(part["sha256"]) == 64 for part in report["data"].values())
    assert report["gate"]["passed"] is True
    assert report["gate"]["split"] == "dev"
    assert report["gate"]["limits"]["onnx/fp32"]["max_abs"] == 1e-4
    assert set(report["seconds"]) >= {"data", "teacher", "distill", "export_onnx_fp32"}
    assert report["machine"]["threads"] == 1


def test_every_row_of_the_report_has_the_fields_of_the_design(bundle):
    report = json.loads((bundle / "report.json").read_text())
    assert [(row["backend"], row["precision"]) for row in report["rows"]] == [
        ("onnx", "fp32"),
        ("onnx", "int8"),
    ]
    for row in report["rows"]:
        assert row["size_bytes"] == (bundle / row["path"]).stat().st_size
        assert row["retention"] == row["score"] / report["teacher"]["score"]
        assert set(row["parity"]) == {"max_abs", "cosine_min"}
        assert row["speedup_vs_teacher"] is None  # 16 tokens at most: no text of 32
        assert row["texts_per_s"] > 0
        assert row["gate"]["passed"] is True


def test_the_lineage_names_settings_seed_data_versions_and_weights(bundle):
    trained, entry = Manifest.load(bundle).lineage  # the teacher came from compress.train
    assert trained["step"] == "train"
    assert entry["step"] == "distill"
    assert entry["seed"] == entry["config"]["seed"] == 42
    assert entry["data"] == {name: part.sha256 for name, part in load_report(bundle).data.items()}
    assert "torch" in entry["versions"]
    assert len(entry["weights_sha256"]) == 64


def test_a_finished_run_leaves_the_bundle_alone(bundle):
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]


def mixed_texts():
    fillers = ["", "very", "the plot not", "hello world, hello world!", "3 1 4 1 5"]
    words = ["good", "bad", "fun", "dull"]
    return [f"the {words[i % 4]} film {fillers[i % 5]} {i}" for i in range(100)]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_hundred_texts_of_mixed_length_have_the_labels_of_each_alone(bundle, precision):
    texts = mixed_texts()
    with edgebert.Runtime(bundle, precision=precision, threads=1) as runtime:
        together = runtime.classify(texts)
        alone = [runtime.classify([text])[0] for text in texts]
    assert [one.label for one in together] == [one.label for one in alone]
    scores = [[one.scores["good"] for one in found] for found in (together, alone)]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(lab, tmp_path):
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        compress.distill(distill_settings(lab, tmp_path / name, seed=seed, max_steps=3))
        found.append(Manifest.load(tmp_path / name).lineage[-1]["weights_sha256"])
    assert found[0] == found[1] != found[2]


# Of the tiny run below, in float32. Another machine rounds otherwise, in the teacher too.
REFERENCE_LOSSES = {
    "soft": [0.0741, 0.0686, 0.0454, 0.0196, 0.0436],
    "hidden": [0.1227, 0.1499, 0.1275, 0.1218, 0.1088],
}


def test_a_seeded_run_has_the_loss_curve_that_is_shipped(lab, tmp_path):
    settings = {"layer_map": "uniform", "hidden_weight": 1.0, "dropout": 0.1, "max_steps": 5}
    report = compress.distill(distill_settings(lab, tmp_path / "b", **settings))
    found = report.phases[0].terms
    for name, losses in REFERENCE_LOSSES.items():
        assert list(found[name]) == pytest.approx(losses, rel=0.05)


def test_a_teacher_without_a_head_is_fine_tuned_first_and_kept(lab, tmp_path):
    report = compress.distill(distill_settings(lab, tmp_path / "b", teacher=str(lab.encoder)))
    assert [phase.name for phase in report.phases] == ["teacher", "prediction"]
    assert report.teacher.score == 1.0
    kept = tmp_path / "b.work" / "teacher"
    assert [path.name for path in kept.parent.iterdir()] == ["teacher"]
    assert load_teacher(kept, task="text-classification", labels=("bad", "good")).has_head


def test_a_teacher_no_better_than_the_majority_stops_the_run_and_leaves_nothing(lab, tmp_path):
    write_classifier(tmp_path / "teacher")
    config = distill_settings(lab, tmp_path / "b", teacher=str(tmp_path / "teacher"))
    with pytest.raises(ModelError, match="no better than always answering"):
        compress.distill(config)
    assert [path.name for path in tmp_path.iterdir()] == ["teacher"]


def permuted(teacher, directory, names):
    """Write a teacher whose logits are in the other order."""
    shutil.copytree(teacher, directory)
    weights = load_file(directory / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name].flip(0).contiguous()
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["id2label"] = {str(logit): name for logit, name in enumerate(names)}
    config["label2id"] = {name: logit for logit, name in enumerate(names)}
    (directory / "config.json").write_text(json.dumps(config))
    return str(directory)


def test_a_permuted_id2label_is_followed_by_name(lab, tmp_path):
    teacher = permuted(lab.teacher, tmp_path / "teacher", ("good", "bad"))
    report = compress.distill(distill_settings(lab, tmp_path / "b", teacher=teacher))
    assert report.teacher.score == 1.0
    assert Manifest.load(tmp_path / "b").labels == ("bad", "good")


def test_labels_without_names_are_refused_until_they_are_given(lab, tmp_path):
    teacher = permuted(lab.teacher, tmp_path / "teacher", ("LABEL_0", "LABEL_1"))
    config = distill_settings(lab, tmp_path / "b", teacher=teacher)
    with pytest.raises(ModelError, match="--teacher-labels"):
        compress.distill(config)
    report = compress.distill(replace(config, teacher_labels="good,bad"))
    assert report.teacher.score == 1.0


@pytest.fixture
def no_hub(lab, monkeypatch):
    """No checkpoint can be had but the embedded one, which is a tiny one here."""

    def refuse(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(teachers.hub, "fetch", refuse)
    monkeypatch.setattr(teachers, "embedded_path", lambda: lab.encoder)


@pytest.mark.usefixtures("no_hub")
def test_a_fallback_is_written_into_the_report_and_the_card(lab, tmp_path):
    compress.distill(distill_settings(lab, tmp_path / "b", teacher="base"))
    teacher = json.loads((tmp_path / "b" / "report.json").read_text())["teacher"]
    assert (teacher["requested"], teacher["used"]) == ("base", teachers.TEACHERS["minilm"].hub_id)
    assert "taken instead" in teacher["note"]
    assert "taken instead" in (tmp_path / "b" / "README.md").read_text()


@pytest.mark.usefixtures("no_hub")
def test_no_fallback_makes_it_an_error_and_leaves_nothing(lab, tmp_path):
    config = distill_settings(lab, tmp_path / "b", teacher="base", no_fallback=True)
    with pytest.raises(ModelError, match="google-bert/bert-base-uncased"):
        compress.distill(config)
    assert list(tmp_path.iterdir()) == []


def test_data_a_teacher_and_loss_terms_of_ones_own(lab, tmp_path):
    config = distill_settings(lab, tmp_path / "b")
    own = load_data(config, task=config.task, seed=config.seed)
    texts = [text.replace("film", "plot") for text in own.train.texts]
    own = replace(own, train=make_split("train", "mine", texts, labels=own.train.labels))
    loaded = load_teacher(lab.teacher, task=config.task, labels=own.labels)
    with torch.no_grad():
        loaded.model.classifier.bias.add_(0.125)
    seen = []

    def small(student, teacher, _):
        seen.append(teacher.logits - student.logits)
        return student.logits.square().mean()

    term = Term(loss=small, weight=0.01, student_wanted=LOGITS, teacher_wanted=LOGITS)
    report = compress.distill(config, data=own, teacher=loaded, extra_terms={"small": term})
    assert report.data["train"].source == "mine"
    assert len(report.phases[-1].terms["small"]) == len(seen) == 10


def test_the_step_can_be_called_by_its_module_and_by_its_name(lab, tmp_path):
    from compress.distill import distill

    with pytest.raises(InputError, match="nonsense"):
        distill(distill_settings(lab, tmp_path / "b", student="nonsense"))
    with pytest.raises(InputError, match="nonsense"):
        compress.distill(distill_settings(lab, tmp_path / "b", student="nonsense"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_the_table_and_run_json_replays_it(lab, tmp_path, capsys):
    config = distill_settings(lab, tmp_path / "a", max_steps=4)
    assert run_step("distill", *flags(config)) == 0
    assert "onnx int8" in capsys.readouterr().out
    replay = ("--config", str(tmp_path / "a" / "run.json"))
    assert run_step("distill", *replay, "--output-dir", str(tmp_path / "b")) == 0
    hashes = {Manifest.load(tmp_path / n).lineage[-1]["weights_sha256"] for n in ("a", "b")}
    assert len(hashes) == 1


def test_the_command_in_the_report_gives_the_settings_again(bundle, lab):
    words = shlex.split(load_report(bundle).command)
    assert words[:3] == ["python", "-m", "compress.distill"]
    again = parse_config(compress.DistillConfig, words[3:], prog="")
    assert again == distill_settings(lab, bundle, test_file=lab.test, num_train_epochs=12)


def failing_gate(*_, **__):
    return GateRecord(passed=False, limits={"relative_loss": 0.01}, reasons=("Off by 3.",))


def test_refused_int8_ends_with_3_and_the_bundle_is_written_without_it(
    lab, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(artifacts, "int8_gate", failing_gate)
    assert run_step("distill", *flags(distill_settings(lab, tmp_path / "b", max_steps=2))) == 3
    assert "Off by 3." in caplog.text
    assert [one.precision for one in Manifest.load(tmp_path / "b").artifacts] == ["fp32"]
    assert load_report(tmp_path / "b").refused[0].gate.reasons[0] == "Off by 3."
    with edgebert.Runtime(tmp_path / "b", threads=1) as runtime:
        assert runtime.info.precision == "fp32"


def test_fp32_that_is_not_the_torch_student_writes_nothing(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "fp32_parity", failing_gate)
    with pytest.raises(GateError, match="Off by 3"):
        compress.distill(distill_settings(lab, tmp_path / "b", max_steps=2))
    assert not (tmp_path / "b").exists()
    assert not list(tmp_path.rglob("*.part"))


def test_the_metric_that_picks_the_weights_is_stated_and_a_wrong_one_refused(lab, tmp_path):
    report = compress.distill(
        distill_settings(lab, tmp_path / "b", metric_for_best_model="macro_f1")
    )
    steps = dict(report.phases[0].scores)
    assert steps[report.phases[0].best_step] == max(steps.values())
    with pytest.raises(InputError, match="accuracy, macro_f1, mcc"):
        compress.distill(distill_settings(lab, tmp_path / "c", metric_for_best_model="mse"))
    assert not (tmp_path / "c.work").exists()
