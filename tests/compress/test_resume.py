"""The real command, killed in any phase and resumed, ends in the weights of an unbroken run."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import compress
from compress.report import load_report
from edgebert.errors import InputError, ResumeError
from tests.compress.steps import distill_settings, flags, run_step

ROOT = Path(__file__).parents[2]
# Dies at the so many-th call of a function; argv: MODULE FUNCTION NUMBER and the command's own.
KILLER = """
import importlib, os, runpy, signal, sys
module, names, number = sys.argv[1], sys.argv[2].split("."), int(sys.argv[3])
owner = importlib.import_module(module)
for name in names[:-1]:
    owner = getattr(owner, name)
call, calls = getattr(owner, names[-1]), 0
def wrapped(*arguments, **named):
    global calls
    calls += 1
    if calls == number:
        os.kill(os.getpid(), SIGNAL)
    return call(*arguments, **named)
setattr(owner, names[-1], wrapped)
sys.argv = ["compress.distill", *sys.argv[4:]]
runpy.run_module("compress.distill", run_name="__main__")
"""
POINTS = {  # where, and at which call
    "teacher": ("compress.training.loop", "_Loop._update", 8),
    "teacher measured": ("compress.training.loop", "_Loop._measure", 2),
    "teacher written": ("compress.training.teacher_step", "save_checkpoint", 1),
    "cache": ("compress.distillation.teacher_cache", "TeacherCache._write", 2),
    "first phase": ("compress.training.loop", "_Loop._update", 20 + 4),
    "second phase": ("compress.training.loop", "_Loop._update", 20 + 5 + 7),
    "second phase done": ("compress.training.loop", "_Loop.finish", 3),
    "export": ("compress.bundles.export", "make_int8", 1),
    "bundle almost there": ("compress.bundles.shipping", "write_papers", 1),
    "bundle there": ("compress.work", "_close", 1),
}
DEFAULT = ("first phase", "export")
TEACHER_LOADED = ("compress.training.teacher_step", "load_teacher", 1)


def settings(lab, output, **changes):
    """A teacher of 20 steps and a student of 5 and 10, saved at every third."""
    return distill_settings(
        lab,
        output,
        **{"teacher": str(lab.encoder), "method": "tinybert", "save_steps": 3, **changes},
    )


def start(config, *prefix: str) -> subprocess.Popen[str]:
    command = [sys.executable, *(prefix or ("-m", "compress.distill")), *flags(config)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def start_dying(config, point: str, number: signal.Signals = signal.SIGKILL):
    module, function, calls = POINTS.get(point, TEACHER_LOADED)
    script = KILLER.replace("SIGNAL", str(int(number)))
    return start(config, "-c", script, module, function, str(calls))


def sha256(output: Path) -> str:
    return hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()


def resume(config) -> int:
    return run_step("distill", *flags(config), "--resume")


@pytest.fixture(scope="module")
def unbroken(lab, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("unbroken") / "student"
    compress.distill(settings(lab, output))
    return output


@pytest.mark.parametrize("point", [
    point if point in DEFAULT else pytest.param(point, marks=pytest.mark.slow) for point in POINTS
])  # fmt: skip
def test_killed_in_any_phase_and_resumed_it_has_the_unbroken_weights(
    lab, tmp_path, unbroken, point
):
    config = settings(lab, tmp_path / "student")
    killed = start_dying(config, point)
    _, stderr = killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL, stderr
    if point != "bundle there":
        assert not (tmp_path / "student").exists()
    assert resume(config) == 0
    assert sha256(tmp_path / "student") == sha256(unbroken)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["student", "student.work"]
    assert [p.name for p in (tmp_path / "student.work").iterdir()] == ["teacher"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_a_random_moment_it_has_the_unbroken_weights(lab, tmp_path, unbroken, seed):
    config = settings(lab, tmp_path / "student")
    process = start(config)
    while process.poll() is None and not (tmp_path / "student.work" / "run.json").exists():
        time.sleep(0.01)
    time.sleep(random.Random(seed).uniform(0.0, sum(load_report(unbroken).seconds.values())))
    process.kill()
    _, stderr = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), stderr
    assert resume(config) == 0
    assert sha256(tmp_path / "student") == sha256(unbroken)
    assert not list(tmp_path.glob("*.part"))


def test_ctrl_c_ends_with_130_says_how_to_go_on_and_loses_no_step(lab, tmp_path, unbroken):
    config = settings(lab, tmp_path / "student", save_steps=500)
    process = start_dying(config, "second phase", signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "interrupted at step 7 of prediction; go on with --resume" in stderr
    saved = tmp_path / "student.work" / "phase-2" / "last-0000007"
    assert json.loads((saved / "state.json").read_text())["state"]["step"] == 7
    assert resume(config) == 0
    assert sha256(tmp_path / "student") == sha256(unbroken)


def test_ctrl_c_in_the_export_says_how_to_go_on_too(lab, tmp_path, unbroken):
    config = settings(lab, tmp_path / "student")
    process = start_dying(config, "export", signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert stderr.endswith("error: interrupted; go on with --resume\n")
    assert not (tmp_path / "student").exists()
    assert resume(config) == 0
    assert sha256(tmp_path / "student") == sha256(unbroken)


def test_ctrl_c_before_anything_is_worth_keeping_leaves_nothing(lab, tmp_path):
    process = start_dying(settings(lab, tmp_path / "student"), "teacher loaded", signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert list(tmp_path.iterdir()) == []


def test_resuming_a_finished_run_does_nothing_and_ends_with_0(lab, unbroken, capsys):
    before = (unbroken / "report.json").stat().st_mtime_ns
    assert resume(settings(lab, unbroken)) == 0
    assert (unbroken / "report.json").stat().st_mtime_ns == before
    assert "onnx int8" in capsys.readouterr().out


def interrupt(config) -> None:
    """Start a run that Ctrl+C ends in its second phase."""
    process = start_dying(config, "second phase", signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr


@pytest.fixture
def unfinished(lab, tmp_path):
    config = settings(lab, tmp_path / "student")
    interrupt(config)
    return config


def test_resuming_with_other_settings_names_what_differs(lab, unfinished, unbroken):
    for output in (unfinished.output_dir, unbroken):
        with pytest.raises(ResumeError, match=r"temperature was 2\.0 and is 4\.0"):
            compress.distill(settings(lab, output, temperature=4.0, resume=True))
    assert (unfinished.output_dir.with_name("student.work") / "run.json").exists()


def test_resuming_with_other_data_in_the_file_is_refused(lab, tmp_path):
    data = tmp_path / "train.tsv"
    data.write_text(lab.train.read_text())
    interrupt(settings(lab, tmp_path / "student", train_file=data))
    data.write_text(lab.train.read_text().replace("plot", "world"))
    with pytest.raises(ResumeError, match="train was"):
        compress.distill(settings(lab, tmp_path / "student", train_file=data, resume=True))


def test_an_unfinished_run_is_not_overwritten_unasked(lab, unfinished):
    with pytest.raises(InputError, match=r"--resume.*--overwrite-output-dir"):
        compress.distill(settings(lab, unfinished.output_dir))
    report = compress.distill(settings(lab, unfinished.output_dir, overwrite_output_dir=True))
    assert report.rows


def test_a_file_that_has_moved_costs_a_resumed_run_nothing(lab, unfinished, tmp_path):
    work = unfinished.output_dir.with_name("student.work")
    before = sorted(path.name for path in work.iterdir())
    config = settings(lab, unfinished.output_dir, resume=True)
    lab.train.rename(tmp_path / "moved.tsv")
    try:
        with pytest.raises(InputError):
            compress.distill(config)
    finally:
        (tmp_path / "moved.tsv").rename(lab.train)
    assert sorted(path.name for path in work.iterdir()) == before


def test_the_seconds_of_a_resumed_run_are_of_all_its_parts(unfinished):
    work = unfinished.output_dir.with_name("student.work")
    before = json.loads((work / "seconds.json").read_text())
    assert resume(unfinished) == 0
    after = load_report(unfinished.output_dir).seconds
    assert before["teacher"] > 0.1  # it is trained before the interrupt, and only there
    assert after["teacher"] >= before["teacher"]
    assert after["distill"] > before["distill"] > 0


def test_nothing_to_resume_starts_from_the_beginning(lab, tmp_path, unbroken):
    assert resume(settings(lab, tmp_path / "student")) == 0
    assert sha256(tmp_path / "student") == sha256(unbroken)
