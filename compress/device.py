"""Which device trains, and on how many threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from edgebert.cpu import default_threads
from edgebert.errors import InputError

if TYPE_CHECKING:
    import torch


def resolve_device(name: str) -> torch.device:
    """Turn ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps`` into a device that is here.

    Raises:
        InputError: The name means nothing to torch, or the device isn't on this machine.
    """
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"--device {name!r} can't be used here ({reason}). Use cpu, cuda, mps or auto."
        ) from error
    return device


def set_threads(threads: int | None) -> int:
    """Give torch its CPU threads, by default all that affinity and cgroup quota allow.

    Threads that wait must not spin: on a machine that does other work, spinning OpenMP threads made
    a training loop of two threads 10 to 30 times slower. The wait policy is read when OpenMP
    starts, so this comes before torch's first parallel work.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    count = threads or default_threads()
    torch.set_num_threads(count)
    return count
