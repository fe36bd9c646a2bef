"""A chain of steps: each is in the lineage; reports measure against the first teacher of all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import compress
from compress.bundles.lineage import earlier_steps
from tests.compress.steps import distill_settings


def pruned(lab, output: Path, model: Path) -> Path:
    compress.prune(
        compress.PruneConfig(
            model=str(model),
            train_file=lab.train,
            dev_file=lab.train,
            max_length=16,
            sparsity=0.1,
            units="neurons",
            importance="magnitude",
            num_train_epochs=0,
            threads=1,
            output_dir=output,
        )
    )
    return output


def exported(lab, output: Path, model: Path) -> dict:
    compress.export(
        compress.ExportConfig(
            model=str(model),
            train_file=lab.train,
            dev_file=lab.train,
            test_file=lab.test,
            max_length=16,
            backend=("onnx",),
            threads=1,
            output_dir=output,
        )
    )
    return json.loads((output / "report.json").read_text())


def teacher_of(lab, folder: Path) -> Path:
    return Path(shutil.copytree(lab.teacher, folder / "teacher"))


@pytest.fixture(scope="module")
def chain(lab, tmp_path_factory):
    """A teacher, trimmed, pruned, and exported."""
    folder = tmp_path_factory.mktemp("chain")
    compress.trim(
        compress.TrimConfig(
            model=str(lab.teacher), corpus=(lab.train,), output_dir=folder / "trimmed"
        )
    )
    pruned(lab, folder / "pruned", folder / "trimmed")
    return folder, exported(lab, folder / "bundle", folder / "pruned")


def test_every_step_of_a_chain_is_in_the_lineage(chain):
    folder, report = chain
    assert [one["step"] for one in report["lineage"]] == ["train", "trim", "prune", "export"]
    assert [one["step"] for one in earlier_steps(folder / "pruned")] == ["train", "trim", "prune"]
    assert all(one["versions"]["torch"] for one in report["lineage"])


def test_a_report_measures_against_the_first_teacher(chain, lab):
    _, report = chain
    alone = json.loads((lab.teacher / "config.json").read_text())
    assert report["teacher"]["used"] == str(lab.teacher)
    assert report["teacher"]["architecture"]["intermediate_size"] == alone["intermediate_size"]
    assert report["teacher"]["params"] > report["student"]["params"]


def test_its_score_is_what_evaluate_says_of_it(chain, lab):
    _, report = chain
    found = compress.evaluate(
        compress.EvaluateConfig(model=str(lab.teacher), test_file=lab.test, max_length=16)
    )
    assert report["teacher"]["score"] == found["torch/fp32"]["value"]
    row = report["rows"][0]
    assert row["retention"] == pytest.approx(row["score"] / report["teacher"]["score"])


def test_a_student_of_a_pruned_teacher_is_measured_against_the_first_one(lab, tmp_path):
    given = pruned(lab, tmp_path / "pruned", lab.teacher)
    report = compress.distill(distill_settings(lab, tmp_path / "student", teacher=str(given)))
    assert report.teacher.used == str(lab.teacher)
    assert [one["step"] for one in report.lineage] == ["train", "prune", "distill"]


def test_a_bundle_that_is_exported_again_keeps_its_teacher(lab, tmp_path):
    compress.distill(distill_settings(lab, tmp_path / "student"))
    report = exported(lab, tmp_path / "again", tmp_path / "student")
    assert report["teacher"]["used"] == str(lab.teacher)
    assert not [note for note in report["notes"] if "first teacher" in note]


def test_a_first_teacher_that_has_changed_is_not_taken_and_that_is_said(lab, tmp_path):
    teacher = teacher_of(lab, tmp_path)
    lineage = json.loads((teacher / "lineage.json").read_text())
    lineage[0]["baseline"]["directory"] = str(teacher)
    (teacher / "lineage.json").write_text(json.dumps(lineage))
    given = pruned(lab, tmp_path / "pruned", teacher)
    with (teacher / "model.safetensors").open("ab") as file:
        file.write(b" ")
    report = exported(lab, tmp_path / "bundle", given)
    assert report["teacher"]["used"] == str(given)
    assert [note for note in report["notes"] if "isn't there any more or has changed" in note]


def test_a_model_that_began_the_lineage_is_its_own_teacher(lab, tmp_path):
    report = exported(lab, tmp_path / "bundle", lab.teacher)
    assert report["teacher"]["used"] == str(lab.teacher)
    assert report["teacher"]["params"] == report["student"]["params"]
