"""Try in a process of its own what may end the process: the import of an engine, a first load.

A wheel that was built for another processor dies at its first instruction, without an error that
Python could catch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from runtimes import BACKENDS

TIMEOUT_SECONDS = 300.0  # an emulated or a very slow machine takes a minute

_LOAD = """
import sys, edgebert
from edgebert.errors import EdgeBertError
try:
    edgebert.Runtime(sys.argv[1], threads=int(sys.argv[2])).close()
except EdgeBertError as error:
    sys.exit(str(error))
"""


def why_no_import(backend: str) -> str | None:
    """Import an engine in a process of its own; say what went wrong, or None when it works."""
    module = BACKENDS[backend].target.partition(":")[0]
    return _failure(f"import {module}")


def why_no_load(bundle: Path, *, threads: int) -> str | None:
    """Load a bundle as ``auto`` does, which tests and measures it and keeps the result.

    Returns:
        What went wrong, or None when it works.
    """
    return _failure(_LOAD, str(bundle.absolute()), str(threads))


def _failure(code: str, *arguments: str) -> str | None:
    if getattr(sys, "frozen", False):  # then sys.executable is the app, and no Python
        return None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
            env={**environment, "PYTHONIOENCODING": "utf-8"},
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {TIMEOUT_SECONDS:.0f} s"
    except OSError as error:
        return f"it can't be tried: {error.strerror}"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"the process died of {_signal_name(-done.returncode)}"
    lines = done.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"the process ended with {done.returncode}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
