"""What a process does before its first vector, in seconds of the processor: no clock on the wall.

The budget is over what Python, numpy and the engine's own import take on this machine: the import
of a training package, or a self-test or measurement that is done again, is far above it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUDGET_S = 0.5  # twice what the slowest engine takes; importing torch alone takes 2 s
RUNS = 3

ENGINE = "import numpy, tokenizers, runtimes.{}"
FIRST_VECTOR = """
import sys, edgebert
runtime = edgebert.Runtime(sys.argv[1], sys.argv[2], "int8", threads=1)
assert runtime.encode(["one short text"]).shape == (1, 64)
"""


def run(code: str, *arguments: object) -> str:
    """Run Python in a process of its own; give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cpu_seconds(code: str, *arguments: object) -> float:
    """Give the least of a few runs: what is above is the rest of the machine."""
    timed = f"{code}\nimport time; print(time.process_time())"
    return min(float(run(timed, *arguments)) for _ in range(RUNS))


@pytest.mark.slow
def test_a_cold_process_has_its_first_vector_within_the_budget(bundle_of, engine):
    bundle = bundle_of("feature-extraction")
    run(FIRST_VECTOR, bundle, engine)  # its self-test is done now, as for every start but the first
    bare = cpu_seconds(ENGINE.format(engine))
    assert cpu_seconds(FIRST_VECTOR, bundle, engine) - bare <= BUDGET_S
