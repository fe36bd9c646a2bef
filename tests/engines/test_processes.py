"""What an engine does to its process: forks, spawns, idle threads, sockets, files, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GROWTH_MB = 4.0  # an engine that keeps something of each text or thread grows by tens

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="reads /proc")


@pytest.fixture
def work(bundle_of, engine, tmp_path):
    """Run a function of `tests.engines.worker` in a process of its own; give what it prints."""
    bundle = bundle_of("feature-extraction")

    def run(
        name: str,
        *arguments: object,
        precision: str = "int8",
        limit_s: float = 120,
        **settings: str,
    ) -> Any:
        given = [name, str(bundle), engine, precision, *map(str, arguments)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.engines.worker", *given],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | settings,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_children_of_a_busy_parent_get_its_results_and_end(work):
    assert work("fork") == [0, 0, 0]


@pytest.mark.slow
def test_spawned_processes_get_the_same_results(work):
    assert work("spawn") == [True, True]


def test_threads_do_not_spin_between_calls(work):
    assert work("idle", 1)["idle_share"] < 0.05  # of one core; spinning takes one or two


def test_no_socket_is_opened_and_nothing_is_written_beside_the_cache(work, tmp_path):
    cache = os.environ["EDGEBERT_CACHE"]
    homes = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    seen = work("quiet", **homes)
    assert seen["sockets"] == []
    assert [path for path in seen["written"] if not path.startswith((cache, "/dev/null"))] == []
    assert list(tmp_path.iterdir()) == []


def growth(samples: list[float]) -> float:
    """Give how much more is resident at the end than after a quarter of the way."""
    return max(samples[-2:]) - max(samples[: len(samples) // 4])


@pytest.mark.slow
def test_memory_is_flat_over_texts_of_random_length(work):
    samples = work("texts", 20_000, precision="fp32", limit_s=300)  # in batches: more shapes
    assert growth(samples) < GROWTH_MB, samples


@pytest.mark.slow
def test_memory_is_flat_over_new_threads(work):
    samples = work("new_threads", 2_000, limit_s=300)
    assert growth(samples) < GROWTH_MB, samples
