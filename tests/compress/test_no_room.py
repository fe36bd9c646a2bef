"""A full disk, too little memory, a damaged bundle: one clear line, nothing half-written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import compress
from compress.distillation import student_start
from compress.training import loop
from edgebert.cli import main as edgebert_main
from tests.compress.bad_inputs import error_line
from tests.compress.steps import distill_settings, run_step

ROOT = Path(__file__).parents[2]
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_writing_the_bundle_leaves_nothing_at_the_output(
    case, capsys, monkeypatch
):
    from compress.models import saving

    def full(*_, **__):
        raise FULL

    monkeypatch.setattr(saving.shutil, "copyfile", full)
    assert run_step("distill", *case.command()) == 1
    assert "No space left" in error_line(capsys)
    assert not (case.folder / "student").exists()
    assert not list(case.folder.rglob("*.part"))
    monkeypatch.undo()  # room was made
    assert run_step("distill", *case.command(), "--resume") == 0


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
@pytest.mark.parametrize("limit", [3_000, 30_000, 70_000])
def test_a_file_that_the_system_cuts_short_is_no_traceback(case, limit):
    script = (
        "import resource, runpy, sys, compress.bundles.shipping\n"
        "from compress.distillation import imitate\n"
        "train = imitate.train_loop\n"
        "def limited(**settings):\n"
        "    done = train(**settings)\n"
        f"    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "    return done\n"
        "imitate.train_loop = limited\n"
        "runpy.run_module('compress.distill', run_name='__main__', alter_sys=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *case.command()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "ake room there" in done.stderr.splitlines()[-1]
    assert not (case.folder / "student").exists()
    assert not list(case.folder.rglob("*.part"))


@pytest.mark.parametrize("number", range(1, 12, 3))
def test_a_full_disk_at_any_write_leaves_nothing_at_the_output(case, capsys, monkeypatch, number):
    sync, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) >= number:
            raise FULL
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert run_step("distill", *case.command()) == 1
    assert "No space left" in error_line(capsys)
    assert not (case.folder / "student").exists()
    assert not list(case.folder.rglob("*.part"))


@pytest.mark.parametrize("error", [
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"),
])  # fmt: skip
@pytest.mark.parametrize("where", ["student", "step"])
def test_not_enough_memory_says_what_needs_less(case, capsys, monkeypatch, error, where):
    def fail(*_, **__):
        raise error

    if where == "student":
        monkeypatch.setattr(student_start, "build_student", fail)
    else:
        monkeypatch.setattr(loop._Loop, "_update", fail)
    assert run_step("distill", *case.command()) == 1
    line = error_line(capsys)
    assert "--per-device-train-batch-size" in line
    assert "--max-length" in line
    assert not (case.folder / "student").exists()


@pytest.fixture(scope="module")
def bundle(lab, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "student"
    compress.distill(distill_settings(lab, output, max_steps=2))
    return output


@pytest.mark.parametrize(("name", "damage", "named"), [
    ("onnx/model.onnx", lambda data: data[:1024], "model.onnx"),
    ("onnx/model.onnx", lambda data: data[:-4] + b"\0\1\2\3", "model.onnx"),
    ("tokenizer.json", lambda data: data.replace(b"good", b"evil"), "tokenizer.json"),
    ("edgebert.json", lambda data: data[:100], "edgebert.json"),
    ("edgebert.json", lambda data: data.replace(b'_version": ', b'_version": 99'), "99"),
])  # fmt: skip
def test_a_damaged_bundle_is_named_by_every_command(
    bundle, lab, tmp_path, capsys, name, damage, named
):
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    (copy / name).write_bytes(damage((copy / name).read_bytes()))
    argv = ["classify", str(copy), "--precision", "fp32", "the good film"]
    assert edgebert_main(argv) == 1
    assert named in error_line(capsys)
    assert run_step("evaluate", "--model", str(copy), "--test-file", str(lab.test)) == 1
    assert named in error_line(capsys)
