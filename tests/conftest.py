"""What every test shares: the data folder, the engines that must be there, one thread for torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ENGINES = ("onnx", "openvino", "tflite")

# One thread: tiny models gain nothing from more, and results are the same on every machine. Set
# before any engine is imported; what a test starts as a process inherits it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # for tests that import the engine first
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # the same


def required_backends() -> set[str]:
    """Read ``EDGEBERT_REQUIRE_BACKENDS``: engines whose absence is a failure, not a skip."""
    names = os.environ.get("EDGEBERT_REQUIRE_BACKENDS", "").split(",")
    return {name.strip() for name in names} - {""}


def require_tools(ready: Path, setup: str) -> None:
    """Skip where a set-up has not been run; in CI nothing is skipped in silence, so fail there."""
    if not ready.is_file():
        say = pytest.fail if required_backends() else pytest.skip
        say(f"{ready} is absent; run {setup}")


def pytest_configure() -> None:
    unknown = required_backends() - set(ENGINES)
    if unknown:
        raise pytest.UsageError(
            f"EDGEBERT_REQUIRE_BACKENDS names {sorted(unknown)}; allowed: {', '.join(ENGINES)}."
        )


def pytest_sessionstart() -> None:
    missing = required_backends() - set(_installed())
    if missing:
        raise pytest.UsageError(
            f"EDGEBERT_REQUIRE_BACKENDS names {sorted(missing)}, but their engine is not "
            f"installed. Install it: pip install 'edgebert[{','.join(sorted(missing))}]'"
        )


def _installed() -> list[str]:
    if not required_backends():
        return []
    from runtimes import available_backends

    return available_backends()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Give the folder of the public data sets, or skip."""
    default = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("EDGEBERT_SHARED", default))
    if not folder.is_dir():
        pytest.skip(f"needs the data folder: {folder} is absent; set EDGEBERT_SHARED")
    return folder


@pytest.fixture(scope="session")
def bundle_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the trained bundle of a task, for every engine, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("engines")
    made: dict[str, Path] = {}

    def of(task: str) -> Path:
        from tests.engines.bundles import write_bundle

        if task not in made:
            made[task] = write_bundle(folder / task, task)
        return made[task]

    return of


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> None:
    try:
        import torch
    except ModuleNotFoundError:  # a runtime-only environment
        return
    torch.set_num_threads(1)
