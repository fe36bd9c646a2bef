"""What to type to install an engine on this very machine.

Which wheels there are was asked of the registry, see ``benchmarks/install_sizes.py``.
"""

from __future__ import annotations

import platform
import struct
import sys
from dataclasses import dataclass

from runtimes import BACKENDS

_DISTRIBUTION = "python3 -m venv --system-site-packages .venv && .venv/bin/pip install --no-deps"
_NO_WHEEL_FOR_ARMV7 = "there is no wheel for 32-bit ARM"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """What a choice of wheels depends on.

    Attributes:
        system: As `platform.system`: ``Linux``, ``Darwin``, ``Windows``.
        machine: As `platform.machine`: ``x86_64``, ``aarch64``, ``armv7l``, …
        python: ``(3, 11)``.
        bits: Of a pointer: 32 for a 32-bit Python, also on a 64-bit kernel.
        glibc: Whether the C library is glibc; True where the system isn't Linux.
    """

    system: str
    machine: str
    python: tuple[int, int]
    bits: int = 64
    glibc: bool = True

    @classmethod
    def here(cls) -> Platform:
        """Describe this process."""
        system = platform.system()
        return cls(
            system=system,
            machine=platform.machine().lower(),
            python=sys.version_info[:2],
            bits=8 * struct.calcsize("P"),
            glibc=system != "Linux" or platform.libc_ver()[0] == "glibc",
        )

    @property
    def small_arm(self) -> bool:
        """Whether Python is a program for 32-bit ARM."""
        return self.bits == 32 and self.machine.startswith(("arm", "aarch64"))


def install_line(backend: str, here: Platform) -> str:
    """Give the line that installs an engine, or say why there is none, beginning with ``none:``."""
    line = f"pip install 'edgebert[{BACKENDS[backend].extra}]'"
    if here.small_arm:
        return _on_small_arm(backend, here)
    if here.bits == 32:
        return "none: the engines have no wheels for 32-bit x86; take a 64-bit Python"
    if not here.glibc:
        return "none: the engines have no wheels for musl, as on Alpine; take a system with glibc"
    if here.system == "Darwin" and here.machine == "x86_64" and backend == "tflite":
        return "none: LiteRT has no wheel for Intel Macs"
    return line


def _on_small_arm(backend: str, here: Platform) -> str:
    """Debian's own numpy, as PyPI has no wheel of it; so without what pip would bring along."""
    if here.machine.startswith("armv6"):
        return "none: no engine has a wheel for ARMv6, as in the Pi Zero and Pi 1"
    old = here.python < (3, 12)
    if backend == "tflite" and old:
        return (
            f"sudo apt install python3-numpy && {_DISTRIBUTION} edgebert tokenizers tflite-runtime"
        )
    if backend == "onnx" and not old:  # Debian 13, whose Python is 3.13
        return (
            "sudo apt install python3-numpy python3-onnxruntime && "
            f"{_DISTRIBUTION} edgebert tokenizers"
        )
    if backend == "tflite":
        return f"none: {_NO_WHEEL_FOR_ARMV7} and Python 3.12 or later; take onnx"
    return f"none: {_NO_WHEEL_FOR_ARMV7}" + ("; take tflite" if old else "; take onnx")
