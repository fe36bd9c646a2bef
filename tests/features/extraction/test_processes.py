"""Worker processes: the same vectors, and a death costs no row and no hang."""

import logging
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from edgebert.errors import BackendRunError, InputError
from edgebert.features import extract, open_store, processes
from edgebert.features.processes import bounded
from tests.features.extraction.memory_store import held

TEXTS = [f"good film {word}" for word in ("a", "very bad plot", "not fun", "dull", "hello world")]


@pytest.fixture(autouse=True)
def _many(monkeypatch, small_blocks):  # noqa: ARG001
    monkeypatch.setattr("edgebert.features.pipeline.BLOCK_ROWS", 1)
    monkeypatch.setattr(processes, "default_threads", lambda: 2)


def found(uri):
    with open_store(uri, read_only=True) as store:
        return held(store)


def test_workers_are_as_many_as_half_of_the_memory_has_room_for(monkeypatch, caplog):
    monkeypatch.setattr(processes, "memory_limit", lambda: 4 << 30)
    size = 131 << 20  # in 2 GB there is room for 4 processes of 250 + 2 x 131 MiB
    assert bounded(20, size_bytes=size, threads=20) == (4, 5)
    assert "4 of 20 workers" in caplog.text
    assert bounded(0, size_bytes=size, threads=3) == (3, 1)
    assert bounded(2, size_bytes=4 << 30, threads=8) == (1, 8)


@pytest.mark.parametrize("workers", [-1, True, 1.5])
def test_a_wrong_number_of_workers_is_refused(embedder_dir, tmp_path, workers):
    with pytest.raises(InputError, match="workers is"):
        extract(embedder_dir, TEXTS, f"sqlite:{tmp_path / 's.db'}", workers=workers)


def test_an_open_runtime_has_no_workers(embedder, tmp_path):
    with pytest.raises(InputError, match="give its path"):
        extract(embedder, TEXTS, f"sqlite:{tmp_path / 's.db'}", workers=2)


@pytest.mark.slow
def test_processes_give_the_same_vectors_and_one_that_is_killed_is_replaced(
    embedder_dir, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.WARNING)
    extract(embedder_dir, TEXTS, f"sqlite:{tmp_path / 'alone.db'}")
    start, killed = processes.Team._start, []

    def poisoned(self, number):
        connection = start(self, number)
        if not killed:  # the first one dies with its first block
            killed.append(self._processes[number].pid)
            os.kill(killed[0], signal.SIGKILL)
        return connection

    monkeypatch.setattr(processes.Team, "_start", poisoned)
    uri = f"sqlite:{tmp_path / 'team.db'}"
    summary = extract(embedder_dir, TEXTS, uri, workers=2)
    # each text is [CLS] the good film … [SEP], and they have 9 more words
    assert (summary.added, summary.tokens) == (5, 5 * 5 + 9)
    assert summary.seconds["run"] > 0
    assert found(uri) == found(f"sqlite:{tmp_path / 'alone.db'}")
    assert "ended with exit code -9; its rows are run again" in caplog.text


def test_a_block_at_which_every_process_dies_stops_the_run(embedder_dir, tmp_path, monkeypatch):
    start = processes.Team._start

    def poisoned(self, number):
        connection = start(self, number)
        self._processes[number].kill()
        return connection

    monkeypatch.setattr(processes.Team, "_start", poisoned)
    with pytest.raises(BackendRunError, match="twice at the same rows"):
        extract(embedder_dir, TEXTS, f"sqlite:{tmp_path / 's.db'}", workers=2)


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_so(embedder_dir, tmp_path):
    script = tmp_path / "script.py"
    uri = f"sqlite:{tmp_path / 's.db'}"
    script.write_text(
        textwrap.dedent(f"""
            from edgebert.features import Engine, extract
            extract({str(embedder_dir)!r}, ["good"], {uri!r}, workers=2, engine=Engine(threads=2))
        """)
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]
