"""Every machine's answers, made when the first test asks for them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.arm.bundles import claiming_old_engine, with_compatible_int8
from tests.arm.kernels import count
from tests.arm.machines import MACHINES, Machine, folder, run
from tests.engines.methods import METHODS

WORKER = Path(__file__).parent / "worker.py"
TASKS = sorted({method.task for method in METHODS.values()})


@pytest.fixture(scope="session")
def machines() -> dict[str, Machine]:
    """Give the emulated machines by name; where they must be and aren't, fail."""
    reason = ""
    if shutil.which("qemu-aarch64-static") is None or shutil.which("qemu-arm-static") is None:
        reason = "qemu-user-static is not installed"
    elif not folder().is_dir():
        reason = f"{folder()} is absent"
    if reason:
        say = pytest.fail if os.environ.get("EDGEBERT_REQUIRE_ARM") else pytest.skip
        say(f"{reason}; as root on Debian: tests/arm/setup.sh")
    return MACHINES


@pytest.fixture(scope="package", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEBERT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def compatible_of(
    bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Give the bundle of a task for 32-bit ARM."""
    made: dict[str, Path] = {}
    base = tmp_path_factory.mktemp("compatible")

    def of(task: str) -> Path:
        if task not in made:
            made[task] = with_compatible_int8(bundle_of(task), base / task)
        return made[task]

    return of


@pytest.fixture(scope="session")
def said(
    machines: dict[str, Machine],
    bundle_of: Callable[[str], Path],
    compatible_of: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., dict[str, Any]]:
    """Give what a machine says on an engine: see `tests.arm.worker`, and ``kernels``.

    Called with the machine's name (``x86`` for this one), the backend, and whether the bundles are
    those for 32-bit ARM.
    """
    known: dict[tuple[str, str, bool], dict[str, Any]] = {}
    work = tmp_path_factory.mktemp("arm")

    def of(name: str, backend: str, *, compatible: bool = False) -> dict[str, Any]:
        key = (name, backend, compatible)
        if key not in known:
            make = compatible_of if compatible else bundle_of
            bundles = [link(make(task), work / ("old" if compatible else "new")) for task in TASKS]
            out, log = work / "out.json", work / "log"
            run(machines.get(name), WORKER, out, backend, log, *bundles, log=log)
            known[key] = read(out, log)
        return known[key]

    return of


def link(bundle: Path, base: Path) -> Path:
    """Give a bundle the name of its task, by which the worker tells it."""
    task = json.loads((bundle / "edgebert.json").read_text(encoding="utf-8"))["task"]
    path: Path = base / task
    if not path.exists():
        base.mkdir(exist_ok=True)
        path.symlink_to(bundle)
    return path


def read(out: Path, log: Path) -> dict[str, Any]:
    """Read what a worker wrote, and count the INT8 instructions of each precision."""
    data: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if log.is_file():
        between = data["int8"]["log"]
        data["fp32"]["kernels"] = count(log, data["fp32"]["log"], between)
        data["int8"]["kernels"] = count(log, between)
        log.unlink()
    return data


@pytest.fixture(scope="session")
def misleading(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a bundle whose manifest claims of its INT8 that an old engine computes it rightly."""
    base = tmp_path_factory.mktemp("misleading")
    return claiming_old_engine(bundle_of("feature-extraction"), base / "feature-extraction")
