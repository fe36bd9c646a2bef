"""Which device trains, and on how many threads."""

from __future__ import annotations

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

    How OpenMP's threads wait is left as it is: telling them not to spin made a step of two threads
    30 % slower on an idle machine, and the teacher that students are timed against with it.
    """
    import torch

    count = threads or default_threads()
    torch.set_num_threads(count)
    return count
