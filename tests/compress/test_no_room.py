"""A full disk, too little memory, a damaged bundle: one clear line, nothing half-written."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

import compress
from compress import imitate, loop
from edgebert.cli import main as edgebert_main
from tests.compress.bad_inputs import error_line
from tests.compress.steps import distill_settings, run_step

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_writing_the_bundle_leaves_nothing_at_the_output(
    case, capsys, monkeypatch
):
    from compress import bundle_writer

    def full(*_, **__):
        raise FULL

    monkeypatch.setattr(bundle_writer.shutil, "copyfile", full)
    assert run_step("distill", *case.command()) == 1
    assert "No space left" in error_line(capsys)
    assert not (case.folder / "student").exists()
    assert not list(case.folder.rglob("*.part"))
    monkeypatch.undo()  # room was made
    assert run_step("distill", *case.command(), "--resume") == 0


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
@pytest.mark.parametrize("where", ["imitate", "step"])
def test_not_enough_memory_says_what_needs_less(case, capsys, monkeypatch, error, where):
    def fail(*_, **__):
        raise error

    if where == "imitate":
        monkeypatch.setattr(imitate, "build_student", fail)
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
    ("edgebert.json", lambda data: data.replace(b'_version": 1', b'_version": 99'), "99"),
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
