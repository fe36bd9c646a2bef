"""Every kind of store, killed at a random moment while it's made, and while it's updated."""

import random
import signal
import time
from pathlib import Path

import pytest

from edgebert.features.stores import STORES
from tests.features.extraction.killing import Trial, of_session, state_of, write_inputs

KILLS = 1  # of each; `tests.features.extraction.kills` does twenty
ROWS = 128
SECONDS = 1.5  # that a run takes, about


@pytest.fixture
def folder(embedder_dir, tmp_path):
    (tmp_path / "bundle").symlink_to(embedder_dir)
    write_inputs(tmp_path, ROWS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == "sqlite" else pytest.mark.stores) for kind in STORES],
)
def test_a_store_that_was_killed_is_bit_for_bit_one_that_nobody_killed(kind, folder, request):
    """Ids, texts, metadata, vectors, the journal, what files there are; a rerun adds nothing."""
    server = request.getfixturevalue("postgres") if kind == "postgresql" else None
    made = Trial(kind, folder, server)
    updated = Trial(kind, folder, server, how="update")
    draw = random.Random(kind)
    at = made.round(KILLS, SECONDS, draw)
    while not made.killed.total():  # it was done before the moment that was drawn
        at = made.round(KILLS, SECONDS, draw)
    assert updated.round(KILLS, SECONDS, draw, at=at) == at
    place, uri = made.new_place()
    made.extract("before", uri)
    updated.extract("after", uri, update=True)
    updated.check(*at, state_of(place, uri))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_workers_end_by_themselves_when_the_process_that_began_them_is_killed(folder):
    trial = Trial("sqlite", folder, flags=("--workers", "2"))
    left = []

    def kill(process):
        while "writing" not in (folder / "phases").read_text():
            time.sleep(0.005)
        left.append(len(of_session(process.pid)))
        process.kill()
        end = time.monotonic() + 30
        while (there := of_session(process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        left.append(len(there))

    _, uri = trial.new_place()
    assert trial.run(uri, stop=kill).code == -signal.SIGKILL
    assert left[0] >= 2
    assert left[1] == 0
