"""Versions of engines, read without importing one."""

import sys

import pytest

import runtimes
from edgebert.installed import engine_versions, installed_version


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
