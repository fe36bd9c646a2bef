"""Leave the stack on which this thread handles signals as it was.

On CPUs with AMX, each core of OpenVINO that loads its CPU plugin gives the calling thread a signal
stack of its own, and puts back the one that it found when it ends. Of two cores that don't end in
the reverse order of their start, the second one puts back the freed stack of the first, and the
next signal, such as Ctrl+C, ends the process with a segmentation fault.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Stack(ctypes.Structure):
    """``stack_t`` of Linux."""

    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def kept_signal_stack() -> Iterator[None]:
    """Put this thread's signal stack back after a block; an engine then never ends in its place."""
    if sys.platform != "linux":  # the engine does it there alone
        yield
        return
    change = ctypes.CDLL(None).sigaltstack
    before = _Stack()
    change(None, ctypes.byref(before))
    try:
        yield
    finally:
        change(ctypes.byref(before), None)
