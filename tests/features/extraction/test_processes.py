"""Worker processes: how many there are, and the same vectors when some die."""

import subprocess
import sys
from typing import ClassVar

import pytest

from edgebert.errors import InputError
from edgebert.features import Engine, extract, processes
from edgebert.features.processes import bounded
from tests.features.scale_contract import ScaleContract

TEXTS = [f"good film {word}" for word in ("a", "very bad plot", "not fun", "dull", "hello world")]


@pytest.mark.slow
class TestProcesses(ScaleContract):
    how: ClassVar = {"workers": 2, "engine": Engine(threads=2)}  # one each

    @pytest.fixture(autouse=True)
    def _room(self, monkeypatch):
        monkeypatch.setattr(processes, "memory_limit", lambda: 4 << 30)


def test_workers_are_as_many_as_half_of_the_memory_has_room_for(monkeypatch, caplog):
    monkeypatch.setattr(processes, "memory_limit", lambda: 4 << 30)
    size = 131 << 20  # in 2 GB there is room for 4 processes of 250 + 2 x 131 MiB
    assert bounded(20, size_bytes=size, threads=20) == (4, 5)
    assert "4 of 20 workers" in caplog.text
    assert bounded(0, size_bytes=size, threads=3) == (3, 1)
    assert bounded(2, size_bytes=4 << 30, threads=8) == (1, 8)


@pytest.mark.parametrize("workers", [-1, 10**20, True, 1.5])
def test_a_wrong_number_of_workers_is_refused(embedder_dir, tmp_path, workers):
    with pytest.raises(InputError, match="workers is"):
        extract(embedder_dir, TEXTS, f"sqlite:{tmp_path / 's.db'}", workers=workers)


def test_an_open_runtime_has_no_workers(embedder, tmp_path):
    with pytest.raises(InputError, match="give its path"):
        extract(embedder, TEXTS, f"sqlite:{tmp_path / 's.db'}", workers=2)


@pytest.fixture
def script(embedder_dir, tmp_path):
    """Write a script that extracts with settings at its top level, more than once."""

    def write(*calls):
        path = tmp_path / "script.py"
        lines = [
            f"extract({str(embedder_dir)!r}, ['good', 'bad'], 'sqlite:{tmp_path}/{number}.db', "
            f"engine=Engine(threads=2), {settings})"
            for number, settings in enumerate(calls)
        ]
        path.write_text("\n".join(["from edgebert.features import Engine, extract", *lines]))
        return path

    return write


def python(*arguments, **settings):
    return subprocess.run(
        [sys.executable, *arguments],
        **settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 0])
def test_a_script_without_a_main_guard_is_told_so_in_one_error(script, workers):
    done = python(script("workers=None", f"workers={workers}"))
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "InputError: The script calls extract() with workers" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].endswith("if __name__ == '__main__':")


def test_workers_for_a_script_from_stdin_are_refused(script):
    done = python("-", input=script("workers=2").read_text())
    assert done.returncode == 1
    assert "InputError: Worker processes can't read the script" in done.stderr.splitlines()[-1]
