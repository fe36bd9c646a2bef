"""The machines that the tests run on: this one, and ARM cores that qemu emulates.

How long something takes there says nothing of real hardware.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LIMIT_S = 900  # of one run; alone on two cores it takes some 15


@dataclass(frozen=True)
class Machine:
    """One core, and the engines that there are wheels for.

    Attributes:
        name: Of its root file system, too; ``x86`` for this machine itself.
        cpu: As qemu names it.
        bits: 64 or 32.
        backends: Engines that are installed on it.
        kernels: The instruction that multiplies INT8 there, by backend.
    """

    name: str
    cpu: str
    bits: int
    backends: tuple[str, ...]
    kernels: Mapping[str, str]


_ALL = ("onnx", "tflite", "openvino")
MACHINES = {
    one.name: one
    for one in (
        Machine("cortex-a53", "cortex-a53", 64, _ALL, {"onnx": "smull", "tflite": "smlal"}),
        Machine("cortex-a76", "cortex-a76", 64, _ALL, {"onnx": "udot", "tflite": "sdot"}),
        # not plain "max": its SVE takes ten times as long
        Machine("i8mm", "max,sve=off,sme=off", 64, _ALL, {"onnx": "ummla", "tflite": "smmla"}),
        Machine("cortex-a7", "cortex-a7", 32, ("tflite",), {}),
    )
}


def folder() -> Path:
    """Name the folder that ``setup.sh`` makes."""
    command = ["bash", str(ROOT / "tests" / "arm" / "setup.sh"), "--where"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return Path(done.stdout.strip())


def run(machine: Machine | None, *arguments: str | Path, log: Path | None = None) -> None:
    """Run a Python script of ours on a machine, None being this one.

    Args:
        machine: Where.
        arguments: The script's path and its arguments.
        log: Where qemu writes every block of instructions that was run, once.

    Raises:
        AssertionError: It failed; its last words are in the message.
    """
    command, path = _command(machine, log)
    own = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "EDGEBERT_CACHE": "off"}
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, **own, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    where = machine.name if machine else "x86"
    assert done.returncode == 0, f"exit {done.returncode} on {where}: {done.stderr[-3000:]}"


def _command(machine: Machine | None, log: Path | None) -> tuple[list[str], str]:
    """Give the command up to the script, and the path of Python's modules."""
    if machine is None:
        return [sys.executable], str(ROOT)
    base = folder()
    root = base / machine.name
    emulator = "qemu-aarch64-static" if machine.bits == 64 else "qemu-arm-static"
    command = [emulator, "-cpu", machine.cpu, "-L", str(root)]
    path = [str(ROOT), str(base / f"wheels-{machine.bits}")]
    if machine.bits == 32:  # Debian's numpy, whose BLAS nobody has configured
        libraries = root / "usr" / "lib" / "arm-linux-gnueabihf"
        command += ["-E", f"LD_LIBRARY_PATH={libraries / 'blas'}:{libraries / 'lapack'}"]
        path.append(str(root / "usr" / "lib" / "python3" / "dist-packages"))
    if log is not None:
        command += ["-d", "in_asm", "-D", str(log)]
    return [*command, str(root / "usr" / "bin" / "python3.11")], ":".join(path)
