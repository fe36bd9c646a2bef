"""The C program of examples/native, built for this machine and for 64-bit ARM."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_tools

ROOT = Path(__file__).parents[2]
SOURCES, TOOLS = ROOT / "examples" / "native", ROOT / "build" / "native"
SANITIZERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"


class Program:
    """The built program; here, or under emulation."""

    def __init__(self, file: Path, *emulator: str) -> None:
        self._command = [*emulator, str(file)]

    def run(self, *arguments: Any, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run it to its end, whatever that is."""
        environment = {**os.environ, "QEMU_CPU": "cortex-a76"}
        return subprocess.run(
            [*self._command, *map(str, arguments)],
            input=given,
            capture_output=True,
            check=False,
            timeout=300,
            env=environment,
        )

    def lines(self, *arguments: Any, texts: Sequence[str]) -> list[Any]:
        """Give the object that each text becomes."""
        done = self.run(*arguments, given="".join(f"{text}\n" for text in texts).encode())
        assert done.returncode == 0, done.stderr.decode()
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEBERT_CACHE", "off")


@pytest.fixture(scope="session")
def _tools() -> None:
    require_tools(TOOLS / "ready", "tests/native/setup.sh")


def _build(folder: Path, *settings: str) -> Path:
    command = ["make", "-C", str(SOURCES), f"BUILD={folder}", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "edgebert-run"


@pytest.fixture(scope="session")
def native(_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Built for this machine, with what stops it at a wrong access or an overflow."""
    folder = tmp_path_factory.mktemp("native")
    return Program(_build(folder, f"ORT={TOOLS / 'ort'}", f"CFLAGS={SANITIZERS}"))


@pytest.fixture(scope="session")
def arm(_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Built for 64-bit ARM, run as on a Raspberry Pi 5."""
    folder = tmp_path_factory.mktemp("arm")
    file = _build(folder, "CC=aarch64-linux-gnu-gcc", f"ORT={TOOLS / 'ort-arm64'}")
    return Program(file, "qemu-aarch64-static", "-L", str(TOOLS / "root-arm64"))
