"""The bundles that every environment opens; made before by `tests.compat.make_bundles`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.compat.cases import CASES

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items) -> None:
    """Mark all tests of this folder; other people's warnings are theirs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)
            item.add_marker(pytest.mark.filterwarnings("ignore"))


def needs(*packages: str) -> None:
    """Skip where a package isn't installed; fail where ``EDGEBERT_COMPAT`` names it."""
    required = os.environ.get("EDGEBERT_COMPAT", "").split(",")
    for package in packages:
        if _missing(package):
            assert package not in required, f"{package} must be installed here"
            pytest.skip(f"needs {package}", allow_module_level=True)


def _missing(package: str) -> bool:
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:  # a part of a package that isn't there
        return True


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def made() -> Path:
    """Give the folder with a model, a bundle and its outputs for every task."""
    folder = Path(os.environ.get("EDGEBERT_COMPAT_BUNDLES", "build/compat")).resolve()
    if not all((folder / task / "expected.npz").is_file() for task in CASES):
        pytest.skip(f"needs the bundles of {folder}: python -m tests.compat.make_bundles {folder}")
    return folder


@pytest.fixture
def bundle(made, task) -> Path:
    return made / task / "bundle"


@pytest.fixture
def expected(made, task) -> dict[str, np.ndarray]:
    """Give what edgebert gave for the task's batch, in the toolchain's own environment."""
    with np.load(made / task / "expected.npz") as outputs:
        return dict(outputs)
