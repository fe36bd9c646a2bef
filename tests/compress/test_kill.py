"""Kill -9 at chosen moments: each resumed run ends in the weights of an unbroken one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

QUICK = {
    "in the first step": ["step:1"],
    "in every epoch": ["step:9", "step:13", "step:13", "step:13"],
    "with the best weights half written": ["half:3"],
    "after half of the teacher outputs of some rows": ["rowed:3"],
}
MORE = {
    "in the middle of an accumulation": ["step:10"],
    "while measuring": ["evaluate:1", "evaluate:2"],
    "in the last step": ["step:48"],
    "with the weights half written": ["half:1"],
    "with the moments half written": ["half:2", "half:3"],
    "before a checkpoint is renamed": ["rename:1", "rename:2", "rename:3"],
    "after a checkpoint is renamed": ["renamed:1", "renamed:1", "renamed:2"],
    "before old checkpoints are removed": ["clean:1", "clean:2", "clean:3"],
    "before the final weights are renamed": ["rename:8"],
    "after the final weights are renamed": ["renamed:8"],
    "before teacher outputs are written": ["rows:1", "rows:3"],
    "again and again": ["rowed:1", "step:3", "half:2", "rename:1", "step:20", "clean:1"],
}


@pytest.fixture(
    scope="module",
    params=[QUICK, pytest.param(MORE, marks=pytest.mark.slow)],
    ids=["quick", "more"],
)
def results(request, tmp_path_factory) -> dict[str, Any]:
    """Give what each scenario ended in, ``unbroken`` among them."""
    scenarios = {"unbroken": [], **request.param}
    worker = Path(__file__).with_name("resume_worker.py")
    done = subprocess.run(
        [sys.executable, str(worker), str(tmp_path_factory.mktemp("kill")), json.dumps(scenarios)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(worker.parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert [name for name, result in found.items() if "failed" in result] == [], done.stderr
    return found


def of_all(results: dict[str, Any], key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give what each run has, and what the unbroken one has, by name."""
    return (
        {name: result[key] for name, result in results.items()},
        dict.fromkeys(results, results["unbroken"][key]),
    )


def test_the_unbroken_run_picks_weights_from_before_its_end(results):
    assert results["unbroken"]["steps"] == 24
    assert results["unbroken"]["best_step"] < 24


@pytest.mark.parametrize("key", ["weights", "history", "cache"])
def test_a_killed_run_ends_bit_for_bit_like_an_unbroken_one(results, key):
    found, expected = of_all(results, key)
    assert found == expected


def test_nothing_half_written_is_left(results):
    assert {
        name: result["left"] for name, result in results.items() if result["left"] != ["done"]
    } == {}
