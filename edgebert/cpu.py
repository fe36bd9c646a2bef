"""What this machine has, and how much of it this process may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgebert.errors import InputError
from runtimes.cpu import cpu_features as cpu_features
from runtimes.cpu import cpu_name as cpu_name


def default_threads() -> int:
    """Count the CPUs that this process may use.

    ``EDGEBERT_NUM_THREADS`` overrides, then ``OMP_NUM_THREADS``; else it is the smaller of the
    process's affinity and its cgroup's CPU quota, at least 1.

    Raises:
        InputError: ``EDGEBERT_NUM_THREADS`` is not a number from 1.
    """
    own = os.environ.get("EDGEBERT_NUM_THREADS", "").strip()
    if own:
        if not own.isdigit() or int(own) < 1:
            raise InputError(f"EDGEBERT_NUM_THREADS is {own!r}; it must be 1 or more, or unset.")
        return int(own)
    shared = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # "4,2": nested levels
    if shared.isdigit() and int(shared) >= 1:
        return int(shared)
    quota = cgroup_quota()
    threads = _affinity() if quota is None else min(_affinity(), int(quota))
    return max(1, threads)


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Read how many CPUs' worth of time the cgroup grants, or None where there is no limit.

    Args:
        root: Where ``proc`` and ``sys`` are.
    """
    limits = []
    for controller, group in _cgroups(root):
        if controller in ("", "cpu"):
            read = _quota_v1 if controller else _quota_v2
            folders = _above(root / "sys/fs/cgroup" / controller, group)
            limits += [quota for folder in folders if (quota := read(folder)) is not None]
    return min(limits, default=None)


def _cgroups(root: Path) -> Iterator[tuple[str, str]]:
    """Give each controller and the process's group in it; the controller of version 2 is ``""``."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, group = rest.partition(":")
        if colon and (number == "0" or controllers):  # else no such line as the kernel writes
            yield from ((name, group) for name in controllers.split(","))


def _above(base: Path, group: str) -> list[Path]:
    """List a group's folder and all above it: the tightest counts; in a container only the top."""
    parts = Path(group.strip("/")).parts
    return [base.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def memory_limit(root: Path = Path("/")) -> int | None:
    """Count the bytes of memory that this process may have: the machine's, or its cgroup's limit.

    Args:
        root: Where ``proc`` and ``sys`` are.

    Returns:
        The smaller of the two, or None where neither is known.
    """
    limits = [] if (whole := _memory_bytes()) is None else [whole]
    for controller, group in _cgroups(root):
        if controller in ("", "memory"):
            base = root / "sys/fs/cgroup" / controller
            names = ("memory.max", "memory.limit_in_bytes")
            for folder in _above(base, group):
                found = [_read(folder / name).strip() for name in names]
                limits += [int(value) for value in found if value.isdigit()]
    return min(limits, default=None)


def _quota_v2(folder: Path) -> float | None:
    return _ratio(*(_read(folder / "cpu.max").split() or ["max", "1"])[:2])


def _quota_v1(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    if not quota.strip().isdigit() or not period.strip().isdigit():  # "max", "-1", no such file
        return None
    return int(quota) / int(period) if int(quota) and int(period) else None


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """Describe this machine for a report: JSON-ready, without names of hosts or users."""
    return {
        "cpu": cpu_name(),
        "features": list(cpu_features()),
        "cores": os.cpu_count() or 1,
        "threads": default_threads(),
        "memory_gb": None if (memory := _memory_bytes()) is None else round(memory / 1e9, 1),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _memory_bytes() -> int | None:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
