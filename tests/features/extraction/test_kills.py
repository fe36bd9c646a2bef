"""Processes that are killed, or told to stop, at random moments: nothing is lost or doubled."""

import random
import signal
import subprocess
import sys
import time

import pytest

from edgebert.features import extract, open_store
from tests.features.extraction.child import BLOCK_ROWS as CHILD_ROWS
from tests.features.extraction.memory_store import held

ROWS = 160
KILLS = {"lancedb": 2}  # it takes long to start
WORDS = ("good", "bad", "film", "very", "not", "the", "plot", "fun", "dull", "hello", "world")


@pytest.fixture
def texts(tmp_path):
    """Write texts of many lengths, some of them more than one chunk."""
    draw = random.Random(7)
    path = tmp_path / "notes.txt"
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(ROWS)]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def start(embedder_dir, texts):
    """Start a process that extracts into a store."""
    started = []

    def call(uri, *arguments):
        command = [sys.executable, "-m", "tests.features.extraction.child", embedder_dir, texts]
        command += ["--to", uri, "--threads", "1", "--on-long", "chunks", *arguments]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(list(map(str, command)), stdout=pipe, stderr=pipe, text=True)
        )
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


def unbroken(embedder_dir, texts, uri, monkeypatch):
    monkeypatch.setattr("edgebert.features.pipeline.BLOCK_ROWS", CHILD_ROWS)
    extract(embedder_dir, texts, uri, on_long="chunks")
    monkeypatch.undo()
    return found(uri)


def found(uri):
    with open_store(uri, read_only=True) as store:
        return held(store)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["sqlite", *(pytest.param(x, marks=pytest.mark.stores) for x in ("lancedb", "npy"))]
)
def test_kills_at_random_moments_lose_and_double_nothing(
    kind, start, embedder_dir, texts, tmp_path, monkeypatch
):
    """Ids, texts, offsets and the bits of the vectors are those of a run that nobody killed."""
    draw = random.Random(kind)
    uri, stored = f"{kind}:{tmp_path / 'killed'}", 0
    for _ in range(KILLS.get(kind, 5)):
        process = start(uri)
        for _ in range(draw.randint(0, 2)):
            stored += process.stdout.readline() == "stored\n"
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert 0 < stored < ROWS // CHILD_ROWS  # it was killed on its way
    out, err = start(uri).communicate()
    assert "160 rows:" in out, err
    expected = unbroken(embedder_dir, texts, f"{kind}:{tmp_path / 'whole'}", monkeypatch)
    assert len(expected) > ROWS
    assert found(uri) == expected


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process there")
def test_a_process_that_is_told_to_stop_ends_with_130_and_can_go_on(
    start, embedder_dir, texts, tmp_path, monkeypatch
):
    uri = f"sqlite:{tmp_path / 'stopped.db'}"
    process = start(uri)
    assert process.stdout.readline() == "stored\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("error: interrupted; what is stored stays")
    assert len(found(uri)) >= CHILD_ROWS
    start(uri).communicate()
    whole = f"sqlite:{tmp_path / 'whole.db'}"
    assert found(uri) == unbroken(embedder_dir, texts, whole, monkeypatch)


@pytest.mark.slow
def test_a_second_process_is_refused_until_the_first_one_is_killed(start, tmp_path):
    uri = f"sqlite:{tmp_path / 'shared.db'}"
    first = start(uri)
    assert first.stdout.readline() == "stored\n"
    first.send_signal(signal.SIGSTOP)  # so that it can't end meanwhile
    second = start(uri)
    _, err = second.communicate()
    assert second.returncode == 1
    assert "Another run is writing" in err
    first.kill()
    first.wait()
    out, err = start(uri).communicate()
    assert "160 rows:" in out, err


def test_a_run_that_waits_for_stdin_is_interrupted_all_the_same(embedder_dir, tmp_path):
    """Python aborts where it frees stdin while a thread reads it."""
    command = [sys.executable, "-c", "import sys; from edgebert.cli import main; sys.exit(main())"]
    command += ["extract", embedder_dir, "-", "--to", f"sqlite:{tmp_path / 's.db'}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        list(map(str, command)), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        while not process.stderr.readline().startswith("running "):
            assert process.poll() is None
        time.sleep(1)  # until it waits for a line
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "the same command goes on" in process.stderr.read()
