"""Exits are trained after the student and leave it as it is; what can't have any is refused."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import compress
from compress.export import export
from compress.models.exits import EXITS_NAME, warn_of_exits
from edgebert.errors import InputError, ModelError
from edgebert.formats.manifest import Manifest
from tests.compress.exit_models import exit_settings, export_settings, write_teacher
from tests.compress.steps import distill_settings, flags, run_step
from tests.compress.test_resume import KILLER, ROOT


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def folder(lab, tmp_path_factory) -> Path:
    """A student of two layers with exits, for ONNX."""
    folder = tmp_path_factory.mktemp("training")
    compress.distill(settings(lab, folder / "with"))
    return folder


def settings(lab, output, **changes):
    shape = {"student": "L=2,H=32,A=4,I=64", "max_steps": 6, "save_steps": 2}
    return distill_settings(lab, output, **{**shape, "early_exit": True, **changes})


def test_through_all_layers_it_is_bit_for_bit_the_student_without_exits(lab, folder, tmp_path):
    compress.distill(settings(lab, tmp_path / "without", early_exit=False))
    for name in ("model.safetensors", "onnx/model.onnx"):
        assert sha256(folder / "with" / name) == sha256(tmp_path / "without" / name)
    assert not (tmp_path / "without" / EXITS_NAME).exists()


@pytest.mark.slow
def test_a_student_that_is_killed_among_its_exits_ends_in_the_same_weights(lab, folder, tmp_path):
    config = settings(lab, tmp_path / "killed")
    script = KILLER.replace("SIGNAL", str(int(signal.SIGKILL)))
    where = ("compress.training.loop", "_Loop._update", str(6 + 4))  # six steps before the exits
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *where, *flags(config)]
    killed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "killed.work/exits").is_dir()
    assert run_step("distill", *flags(config), "--resume") in (0, 3)
    for name in ("model.safetensors", EXITS_NAME):
        assert sha256(tmp_path / "killed" / name) == sha256(folder / "with" / name)


def test_layerdrop_makes_another_student_and_exits_too(lab, folder, tmp_path):
    compress.distill(settings(lab, tmp_path / "dropped", early_exit=False, layerdrop=0.5))
    assert (tmp_path / "dropped" / EXITS_NAME).is_file()
    dropped, plain = (one / "model.safetensors" for one in (tmp_path / "dropped", folder / "with"))
    assert sha256(dropped) != sha256(plain)


def test_exits_of_another_model_are_refused(folder, tmp_path):
    import shutil

    shutil.copytree(folder / "with", tmp_path / "bundle")
    content = bytearray((tmp_path / "bundle" / EXITS_NAME).read_bytes())
    (tmp_path / "bundle" / EXITS_NAME).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"exits\.safetensors doesn't hold the exits"):
        export(export_settings(tmp_path, train_file=None, dev_file=None))
    assert not (tmp_path / "again").exists()


def test_a_trimmed_student_keeps_its_exits(folder, tmp_path):
    (tmp_path / "corpus.txt").write_text("a good film\nthe plot is dull\n" * 4)
    config = compress.TrimConfig(
        model=str(folder / "with"),
        corpus=(tmp_path / "corpus.txt",),
        output_dir=tmp_path / "trimmed",
        held_out_ratio=0.0,
    )
    compress.trim(config)
    assert sha256(tmp_path / "trimmed" / EXITS_NAME) == sha256(folder / "with" / EXITS_NAME)


def test_a_step_that_changes_layers_says_that_exits_stay_behind(folder, caplog):
    warn_of_exits(folder / "with" / "onnx")  # a directory without
    assert not caplog.records
    warn_of_exits(folder / "with")
    assert "has exits, which read layers that are changed here" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "regression"}, "one label a text.*the task is regression"),
        ({"problem_type": "multi_label_classification"}, "several labels a text"),
        ({"layerdrop": 1.0}, "layerdrop must be from 0 to below 1"),
        ({"exit_metric_budget": -0.1}, "exit_metric_budget must be from 0"),
    ],
)
def test_a_setting_that_can_not_be_meant_is_refused(lab, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        settings(lab, tmp_path / "none", **changes)


def test_a_student_of_one_layer_is_refused_before_anything_is_done(lab, tmp_path):
    with pytest.raises(InputError, match="one layer has no place for an exit"):
        compress.distill(settings(lab, tmp_path / "none", student="L=1,H=32,A=4,I=64"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_bundle_made_again_keeps_its_exits_and_calibrates_static_int8_on_hidden_states(
    tmp_path,
):
    write_teacher(tmp_path)
    compress.distill(exit_settings(tmp_path, exit_metric_budget=0.01, backend=("onnx",)))
    again = export_settings(
        tmp_path, backend=("onnx", "openvino"), recipe=("onnx=static", "openvino=static")
    )
    result = export(again)
    assert not result.refused
    exits = Manifest.load(tmp_path / "again").early_exit
    assert exits.budget == 0.01
    assert sha256(tmp_path / "again" / EXITS_NAME) == sha256(tmp_path / "bundle" / EXITS_NAME)
    recipes = [(one.backend, one.recipe.get("quantization")) for one in exits.artifacts]
    assert recipes == [
        ("onnx", None),
        ("onnx", "static"),
        ("openvino", None),
        ("openvino", "static"),
    ]
