"""Which processor this is, and what it can do."""

from __future__ import annotations

import logging
import platform
from functools import lru_cache
from pathlib import Path

logger = logging.getLogger(__name__)

_INTERESTING = {
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("neon", "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"),
}
# macOS and Windows have names of their own for what Linux calls by the names above
_MACOS = {"avx2_0": "avx2", "avx2": "avx2", "fma": "fma", "avx512f": "avx512f"} | {
    "feat_dotprod": "asimddp",
    "feat_i8mm": "i8mm",
    "feat_bf16": "bf16",
    "feat_fp16": "asimdhp",
    "neon": "asimd",
}
_WINDOWS = {38: "sse4_2", 39: "avx", 40: "avx2", 41: "avx512f", 19: "asimd", 43: "asimddp"}


@lru_cache(maxsize=1)
def cpu_name() -> str:
    """Name the processor as its maker does; the architecture where it has no name."""
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    for key in ("model name", "Model", "Hardware"):  # the latter two on ARM
        if value := _cpuinfo().get(key):
            return value
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def cpu_features() -> tuple[str, ...]:
    """Name the instruction sets that matter for speed, by Linux's names, sorted."""
    system = platform.system()
    if system == "Darwin":
        listing = _sysctl("-a")
        on = {
            line.split(":")[0].rsplit(".", 1)[-1].lower()
            for line in listing.splitlines()
            if line.startswith("hw.optional.") and line.endswith(": 1")
        }
        return tuple(sorted({_MACOS[name] for name in on & set(_MACOS)}))
    if system == "Windows":
        return _windows_features()
    info = _cpuinfo()
    flags = (info.get("flags") or info.get("Features") or "").split()
    return tuple(sorted(_INTERESTING.intersection(flags)))


def has_vnni() -> bool:
    """Whether products of 8-bit numbers are summed in 32 bits; in 16 bits the sums may saturate."""
    return not {"avx512_vnni", "avx_vnni"}.isdisjoint(cpu_features())


@lru_cache(maxsize=1)
def _cpuinfo() -> dict[str, str]:
    """Read the first value of each key of ``/proc/cpuinfo``; empty where there is none."""
    values: dict[str, str] = {}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        values.setdefault(key.strip(), value.strip())
    return values


def _windows_features() -> tuple[str, ...]:
    import ctypes

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - exists on Windows only
    return tuple(
        sorted(name for code, name in _WINDOWS.items() if kernel.IsProcessorFeaturePresent(code))
    )


def _sysctl(name: str) -> str:
    import subprocess  # 5 ms of a cold start, and for macOS only

    try:
        done = subprocess.run(
            ["/usr/sbin/sysctl", *(["-n"] if name != "-a" else []), name],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.debug("sysctl %s: %s", name, error)
        return ""
    return done.stdout.strip()
