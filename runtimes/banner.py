"""Keep one known line of an engine off the standard error stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_STDERR = 2
_ONE_AT_A_TIME = Lock()  # a second one would put back the first one's pipe for good


@contextmanager
def without_line(known: bytes) -> Iterator[None]:
    """Hold back what is written to the process's stderr; pass on all but the lines of ``known``.

    For engines whose native code announces itself and has no switch for that. It acts on the whole
    process, so it must be short and rare; what other threads write meanwhile comes a little later.

    Args:
        known: What the lines to leave out begin with.
    """
    with _ONE_AT_A_TIME:
        yield from _hold_back(known)


def _hold_back(known: bytes) -> Iterator[None]:
    try:
        kept = os.dup(_STDERR)
    except OSError:  # a process without a stderr
        yield
        return
    reader, writer = os.pipe()
    if hasattr(os, "set_blocking"):  # a child forked meanwhile may hold the writer for ever
        os.set_blocking(reader, False)
    os.dup2(writer, _STDERR)
    os.close(writer)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
        _pass_on(reader, known)


def _pass_on(reader: int, known: bytes) -> None:
    written = b""
    try:
        while part := os.read(reader, 65536):
            written += part
    except BlockingIOError:
        pass
    finally:
        os.close(reader)
    for line in written.splitlines(keepends=True):
        if not line.startswith(known):
            os.write(_STDERR, line)
