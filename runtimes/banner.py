"""Keep one known line of an engine off the standard error stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread

_STDERR = 2
_ONE_AT_A_TIME = Lock()  # a second one would put back the first one's pipe for good
_WAIT_SECONDS = 0.2  # for the other end of the pipe: it stays open in a child begun meanwhile


@contextmanager
def without_line(known: bytes) -> Iterator[None]:
    """Hold back what is written to the process's stderr; pass on all but the lines of ``known``.

    For engines whose native code announces itself and has no switch for that. It acts on the whole
    process, so it must be short and rare; what other threads write meanwhile comes a little later.
    A child that another thread starts meanwhile has the pipe as its stderr to its end; a thread
    passes its lines on as long as this process lives.

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
    reader, writer = os.pipe()  # no child inherits these two; what it gets is the copy at stderr
    passing = Thread(target=_pass_on, args=(reader, kept, known), daemon=True)
    passing.start()
    os.dup2(writer, _STDERR)
    os.close(writer)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        passing.join(_WAIT_SECONDS)


def _pass_on(reader: int, kept: int, known: bytes) -> None:
    try:
        with open(reader, "rb") as lines:
            for line in lines:
                if not line.startswith(known):
                    os.write(kept, line)
    finally:
        os.close(kept)
