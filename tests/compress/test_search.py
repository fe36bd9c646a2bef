"""The whole search on tiny models: the budget holds for real files, and a killed one goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import compress
from compress.searching import run as search_run
from compress.searching.config import SearchConfig
from edgebert import Runtime
from edgebert.errors import GateError, InputError, ModelError
from tests.compress.steps import QUICK, flags, run_step

SIZE = 120_000  # less than the FP32 artifact of the largest shape takes, more than the smallest's


def settings(lab, output_dir: Path, **changes: Any) -> SearchConfig:
    own = {
        "teacher": str(lab.teacher),
        "train_file": lab.train,
        "dev_file": lab.train,
        "test_file": lab.test,
        "output_dir": output_dir,
        "max_size": str(SIZE),
        "max_latency": "10s",
        "num_trials": 3,
        "num_train_epochs": 2,
    }
    return SearchConfig(**{**QUICK, **own, **changes})


@pytest.fixture(scope="module")
def finished(lab, tmp_path_factory):
    out = tmp_path_factory.mktemp("search") / "found"
    code = run_step("search", *flags(settings(lab, out)))
    return out, code, json.loads((out / "search.json").read_text())


def chosen_artifact(out: Path, precision: str) -> dict[str, Any]:
    manifest = json.loads((out / "edgebert.json").read_text())
    return next(one for one in manifest["artifacts"] if one["precision"] == precision)


@pytest.mark.slow
def test_the_chosen_artifact_keeps_to_the_budget_on_disk(finished):
    out, code, found = finished
    artifact = chosen_artifact(out, found["chosen"]["precision"])
    size = sum((out / one["path"]).stat().st_size for one in artifact["files"])
    assert size == found["chosen"]["cost"]["size_bytes"] <= SIZE
    assert code in (0, 3)  # 3 where a gate kept the other precision out
    assert (code == 3) == found["refused"]


@pytest.mark.slow
def test_the_bundle_is_the_chosen_student_and_runs(finished):
    out, _, found = finished
    config = json.loads((out / "config.json").read_text())
    numbers = dict(part.split("=") for part in found["chosen"]["student"].split(","))
    assert config["num_hidden_layers"] == int(numbers["L"])
    assert config["hidden_size"] == int(numbers["H"])
    assert config["vocab_size"] == found["chosen"]["vocab_size"]
    with Runtime(out) as runtime:
        (answer,) = runtime.classify(["the good film"])
    assert answer.label in ("bad", "good")


@pytest.mark.slow
def test_test_was_read_for_the_chosen_one_alone(finished):
    out, _, found = finished
    report = json.loads((out / "report.json").read_text())
    row = next(one for one in report["rows"] if one["precision"] == found["chosen"]["precision"])
    assert report["split"] == "test"
    assert found["test_score"] == row["score"]
    assert all(one["score"] == pytest.approx(one["kept"] * found["teacher_score"])
               for one in found["finalists"])  # fmt: skip  # on dev, like the teacher's


@pytest.mark.slow
def test_all_that_was_tried_is_told_with_its_reason(finished):
    out, _, found = finished
    taught = [one for one in found["tried"] if one["outcome"] != "dropped"]
    assert len(taught) == 3
    assert all(one["reason"] for one in found["tried"] if one["outcome"] != "trained")
    trials = out.with_name("found.work") / "trials"
    assert {path.name for path in trials.iterdir()} == {f"{one['number']:04d}" for one in taught}


@pytest.mark.slow
def test_a_trial_is_made_again_by_its_own_settings(finished, tmp_path):
    out, _, found = finished
    one = next(one for one in found["tried"] if one["outcome"] == "trained")
    replay = out.with_name("found.work") / "trials" / f"{one['number']:04d}" / "run.json"
    code = run_step("distill", "--config", str(replay), "--output-dir", str(tmp_path / "again"))
    report = json.loads((tmp_path / "again" / "report.json").read_text())
    scores = dict(report["phases"][-1]["scores"])
    assert code in (0, 3)
    assert max(scores.values()) / found["teacher_score"] == pytest.approx(one["kept"])


@pytest.mark.slow
def test_a_budget_that_nothing_meets_ends_with_3_and_leaves_the_journal_alone(lab, tmp_path):
    config = settings(lab, tmp_path / "found", max_size="10kB", student="L=1,H=16,A=2,I=16")
    with pytest.raises(GateError, match="No shape fits the budget; the last one was dropped: by"):
        compress.search(config)
    assert not (tmp_path / "found").exists()
    assert (tmp_path / "found.work" / "journal.log").is_file()
    assert run_step("search", *flags(config), "--resume") == 3


def test_a_teacher_that_cannot_be_had_leaves_nothing(lab, tmp_path):
    config = settings(lab, tmp_path / "found", teacher=str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match="nowhere"):
        compress.search(config)
    assert list(tmp_path.iterdir()) == []


def test_one_limit_alone_is_wrong_usage(lab, capsys):
    code = run_step("search", "--teacher", str(lab.teacher), "--max-size", "8MB")
    assert code == 2
    assert "Give exactly two of --max-drop, --max-size, --max-latency" in capsys.readouterr().err


def test_a_shape_that_cannot_be_had_is_refused_before_any_work(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(search_run, "run_search", None)  # would be called
    with pytest.raises(InputError, match="num_hidden_groups must be a divisor of its 2 layers"):
        compress.search(settings(lab, tmp_path / "found", student="L=2,G=3"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def killed(lab, tmp_path_factory) -> dict[str, Any]:
    worker = Path(__file__).with_name("search_worker.py")
    scenarios = {"unbroken": [], "killed twice": [6, 9]}
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, str(worker), str(folder), str(lab.teacher), str(lab.train),
         json.dumps(scenarios)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(worker.parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_search_that_was_killed_tries_the_same_shapes_with_the_same_scores(killed):
    def facts(name: str) -> list[tuple[Any, ...]]:
        keys = ("number", "student", "vocab_size", "outcome", "kept")
        return [tuple(one[key] for key in keys) for one in killed[name]["tried"]]

    assert killed["unbroken"]["ends"] == [0]
    assert killed["killed twice"]["ends"] == [9, 9, 0]
    assert facts("killed twice") == facts("unbroken")
    kept = [
        {one["name"]: one["kept"] for one in killed[name]["finalists"]}
        for name in ("unbroken", "killed twice")
    ]
    assert kept[0] == kept[1]
