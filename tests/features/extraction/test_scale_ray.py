"""Workers as actors of Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest

from edgebert.features import Engine, extract
from tests.features.extraction.child import BLOCK_ROWS as CHILD_ROWS
from tests.features.scale_contract import ONE, TEXTS, ScaleContract, found

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.stores


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this process, which extraction finds and leaves alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = signal.getsignal(signal.SIGTERM)
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 << 20,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("cluster")
class TestRay(ScaleContract):
    how: ClassVar = {"scale": "ray", "workers": 2, "engine": Engine(threads=1)}


def of_session(number):
    """Name the processes of a session, which all that a process starts belong to."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == number and fields[0] != "Z":
                found.append((path / "cmdline").read_bytes()[:200])
    return found


def wait_for_end(number):
    end = time.monotonic() + 30
    while (left := of_session(number)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_command_that_is_killed_or_stopped_leaves_no_ray_and_can_be_gone_on_with(
    embedder_dir, tmp_path, monkeypatch
):
    texts, uri = tmp_path / "notes.txt", f"sqlite:{tmp_path / 'ray.db'}"
    texts.write_text("\n".join(TEXTS * 30))
    command = [sys.executable, "-m", "tests.features.extraction.child", embedder_dir, texts]
    command += ["--to", uri, "--scale", "ray", "--workers", "1", "--threads", "1"]
    pipe = subprocess.PIPE
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            list(map(str, command)), stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        try:
            assert process.stdout.readline() == "stored\n"
            assert any(b"raylet" in name for name in of_session(process.pid))
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            assert process.returncode == code, err
            if number == signal.SIGINT:  # after a kill Ray's own agents take their time
                assert wait_for_end(process.pid) == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert err.splitlines()[-1].startswith("error: interrupted; what is stored stays")
    monkeypatch.setattr("edgebert.features.pipeline.BLOCK_ROWS", CHILD_ROWS)
    summary = extract(embedder_dir, texts, uri, engine=ONE)
    assert 0 < summary.added < 1800
    extract(embedder_dir, texts, f"sqlite:{tmp_path / 'whole.db'}", engine=ONE)
    assert found(uri) == found(f"sqlite:{tmp_path / 'whole.db'}")
