"""Versions of engines, read without importing one, and what they are too old for."""

import sys
from dataclasses import replace

import pytest

import runtimes
from edgebert.bundles.bundle import Bundle
from edgebert.bundles.installed import engine_versions, installed_version, why_unsuited


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages with a module ``engine_x``, which the backend ``x`` needs."""
    (tmp_path / "engine_x").mkdir()
    (tmp_path / "engine_x/__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    spec = runtimes.BackendSpec("x:X", requires=("absent_x", "engine_x"), extra="x")
    monkeypatch.setitem(runtimes.BACKENDS, "x", spec)
    return tmp_path


def metadata(site, name, *, brings="engine_x"):
    (site / name).mkdir()
    (site / name / "RECORD").write_text(f"README,,\n{brings}/__init__.py,sha256=x,10\n")


def test_the_version_is_in_the_name_of_the_metadata_folder(site):
    metadata(site, "engine_x-2024.4.0.dist-info")
    metadata(site, "engine_x_telemetry-2026.1.dist-info", brings="engine_x_telemetry")
    assert installed_version("x") == ("engine-x", "2024.4.0")
    assert engine_versions({"x", "marvel"}) == ["engine-x 2024.4.0"]
    assert "engine_x" not in sys.modules


def test_a_distribution_of_another_name_may_bring_the_module(site):
    metadata(site, "engine_x_gpu-1.22.dist-info")
    assert installed_version("x") == ("engine-x", "1.22")


@pytest.mark.usefixtures("site")
def test_without_metadata_the_version_is_not_known():
    assert installed_version("x") == ("engine-x", None)
    assert engine_versions({"x"}) == ["engine-x ?"]


def test_an_engine_that_is_absent_has_no_version(monkeypatch):
    spec = runtimes.BackendSpec("x:X", requires=("absent_x",), extra="x")
    monkeypatch.setitem(runtimes.BACKENDS, "x", spec)
    assert installed_version("x") is None
    assert engine_versions({"x"}) == []


def artifact_of(directory, min_engine):
    return replace(Bundle(directory).manifest.artifacts[0], min_engine=min_engine)


@pytest.mark.onnx
@pytest.mark.parametrize(
    ("needed", "installed", "suits"),
    [
        ("onnxruntime 1.22", "1.22.0", True),
        ("onnxruntime 1.22.0", "1.22", True),
        ("onnxruntime 1.9", "1.22.1", True),
        ("onnxruntime 1.22", "1.9.1", False),
        ("onnxruntime 1.22", "1.22.1.dev3", True),
        ("onnxruntime 1.22", None, True),
        ("tflite-runtime 2.14", "1.22", False),
    ],
)
def test_an_engine_must_be_new_enough(pairs_dir, monkeypatch, needed, installed, suits):
    monkeypatch.setattr(
        "edgebert.bundles.installed.installed_version", lambda _: ("onnxruntime", installed)
    )
    reason = why_unsuited(artifact_of(pairs_dir, needed))
    assert (reason is None) is suits
    assert suits or reason.startswith(f"it needs {needed}")


@pytest.mark.onnx
@pytest.mark.parametrize(
    ("needed", "installed", "suits"),
    [
        ("tflite-runtime 2.14", ("ai-edge-litert", "2.3.0"), True),
        ("ai-edge-litert 2.1", ("tflite-runtime", "2.14.0"), False),
        ("tflite-runtime 2.14", ("tflite-runtime", "2.14.0"), True),
    ],
)
def test_a_successor_suits_and_a_predecessor_does_not(
    pairs_dir, monkeypatch, needed, installed, suits
):
    spec = runtimes.BackendSpec(
        "x:Y", requires=("ai_edge_litert", "tflite_runtime"), extra="tflite"
    )
    monkeypatch.setitem(runtimes.BACKENDS, "onnx", spec)
    monkeypatch.setattr("edgebert.bundles.installed.installed_version", lambda _: installed)
    assert (why_unsuited(artifact_of(pairs_dir, needed)) is None) is suits
