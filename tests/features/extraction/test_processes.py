"""Worker processes: how many there are, and the same vectors when some die."""

import subprocess
import sys
import textwrap
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
