"""Bad input through the real command line: one clear line, exit 1 or 2, nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compress.bad_inputs import CASES, error_line, not_a_number, output_not_empty
from tests.compress.steps import run_step

ROOT = Path(__file__).parents[2]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("spoil", CASES, ids=lambda spoil: spoil.__name__)
def test_bad_input_is_one_line_with_the_remedy_and_leaves_nothing(case, spoil, capsys):
    spoil(case)
    before = tree(case.folder)
    assert run_step("distill", *case.command()) == 1
    line = error_line(capsys)
    assert line.startswith("error: ")
    assert CASES[spoil] in line
    if spoil is not not_a_number:  # found out in training: what was done stays resumable
        assert tree(case.folder) == before
    assert not (case.folder / "student").is_dir() or spoil is output_not_empty


@pytest.mark.parametrize(("words", "named"), [
    (("--method", "magic"), "invalid choice: 'magic'"),
    (("--temperature", "0"), "temperature must be above 0"),
    (("--task", "feature-extraction", "--method", "logits"), "use one of auto, tinybert"),
    (("--num-train-epochs", "many"), "invalid int value"),
    (("--warmup", "0.1"), "unrecognized arguments"),
    (("--dataset", "glue/sst2"), "not both"),
    (("--config", "nowhere.json"), "can't be read"),
])  # fmt: skip
def test_wrong_usage_ends_with_2_and_names_the_flag(case, words, named, capsys):
    assert run_step("distill", *case.command(), *words) == 2
    assert named in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in case.folder.iterdir()] == ["train.tsv"]


def test_a_missing_flag_ends_with_2(capsys):
    assert run_step("distill") == 2
    assert "--teacher" in capsys.readouterr().err


def test_other_vocabularies_of_student_and_teacher_are_refused(case, capsys, monkeypatch):
    from compress.distillation import student_check

    config_of = student_check.student_config

    def other_vocabulary(*arguments):
        config = config_of(*arguments)
        config.vocab_size += 7
        return config

    monkeypatch.setattr(student_check, "student_config", other_vocabulary)
    assert run_step("distill", *case.command(), "--hidden-weight", "1") == 1
    assert "Give both one tokenizer" in error_line(capsys)
    assert [path.name for path in case.folder.iterdir()] == ["train.tsv"]


@pytest.mark.parametrize("step", ["train", "distill", "export", "evaluate"])
def test_every_step_says_one_line_from_a_shell(lab, tmp_path, step):
    model = "--teacher" if step == "distill" else "--model"
    words = [model, str(lab.teacher), "--test-file", "nowhere.tsv"]
    if step == "distill":
        words += ["--student", "L=1"]
    if step != "evaluate":
        words += ["--train-file", "nowhere.tsv", "--output-dir", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", f"compress.{step}", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: nowhere.tsv")
    assert list(tmp_path.iterdir()) == []
