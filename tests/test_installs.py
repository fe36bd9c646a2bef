"""The runtime side beside numpy 1 and on other Pythons: environments of their own, without torch.

What runs there are the Runtime's own tests, from this checkout, on ONNX Runtime.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/edgebert/test_runtime.py",
    "tests/edgebert/test_vectors.py",
    "tests/edgebert/test_pooling.py",
    "tests/edgebert/test_batching.py",
    "tests/edgebert/test_tokenizer.py",
    "tests/edgebert/test_tag.py",
    "tests/edgebert/test_answer.py",
    "tests/edgebert/test_fill_mask.py",
    "tests/edgebert/test_score_choose_rank.py",
    "tests/edgebert/test_every_method.py",
    "tests/runtimes/test_onnx.py",
)
# What the runtime side brings, and what its tests need to make a model.
PACKAGES = ("tokenizers", "onnxruntime", "onnx", "packaging", "pytest")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def python_of(version: str) -> str | None:
    """Find a Python of a version, on the path or among pyenv's; a shim there may lead nowhere."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = sorted(root.glob(f"versions/{version}.*/bin/python"))
    for found in (shutil.which(f"python{version}"), *map(str, own)):
        if found is not None and _starts(found):
            return found
    return None


def _starts(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def run(*command: str | Path, **more: str) -> str:
    environment = {**os.environ, "PYTHONPATH": "", "EDGEBERT_REQUIRE_BACKENDS": "onnx", **more}
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env=environment,
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def check_install(python: str, numpy: str, folder: Path) -> None:
    """Make an environment, see that it is what was asked for, and run the Runtime's tests in it."""
    run(python, "-m", "venv", folder)
    inner = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(inner, "-m", "pip", "install", "--quiet", "--only-binary=:all:", numpy, *PACKAGES)
    found = run(inner, "-c", "import numpy, sys; print(numpy.__version__, *sys.version_info[:2])")
    version = found.split()[0]
    assert "==" not in numpy or version == numpy.partition("==")[2]
    run(inner, "-c", "import importlib.util as u; assert u.find_spec('torch') is None")
    told = run(inner, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *TESTS)
    assert " passed" in told
    assert " skipped" not in told


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="numpy 1.26 has no wheel for this Python")
def test_the_runtime_is_right_beside_numpy_1(tmp_path):
    check_install(sys.executable, "numpy==1.26.4", tmp_path / "numpy1")


@pytest.mark.compat
@pytest.mark.parametrize("version", PYTHONS)
def test_the_runtime_is_right_on_each_python(version, tmp_path):
    python = python_of(version)
    if python is None:
        pytest.skip(f"needs python{version}, which is not on this machine")
    check_install(python, "numpy", tmp_path / version)
