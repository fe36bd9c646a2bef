"""The program of examples/desktop on a screen in memory, as a script and frozen without Python."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from edgebert.features import search
from tests.conftest import require_tools
from tests.edgebert.bundles import change_manifest, write_bundle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE, BUILT = ROOT / "examples" / "desktop", ROOT / "build" / "desktop"
PYTHON = BUILT / "venv" / "bin" / "python"
NOTES = {
    "good.md": "good fun film",
    "dull.txt": "the plot is dull",
    "odd.txt": "漢字 <b>&hello</b>",
}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", "off")


@pytest.fixture(scope="module", autouse=True)
def _tools():
    require_tools(BUILT / "ready", "tests/desktop/setup.sh")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    write_bundle(folder, task="feature-extraction")
    return folder


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "my notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\x00")
    return folder


def run(program, *given, home, path="/usr/bin:/bin"):
    environment = {
        "HOME": str(home),
        "PATH": path,
        "QT_QPA_PLATFORM": "offscreen",
        "OMP_NUM_THREADS": "1",
        "LANG": "C.UTF-8",
    }
    return subprocess.run(
        list(map(str, (*program, *given))),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=environment,
    )


def names_and_scores(shown):
    return re.findall(r"^(\S+) \s+(-?\d\.\d\d)$", shown.replace("\xa0", " "), re.MULTILINE)


def test_what_is_shown_is_what_a_search_of_the_store_finds(bundle, notes, tmp_path):
    store, picture = tmp_path / "v.db", tmp_path / "window.png"
    given = (bundle, notes, "--store", store, "--query", "good film", "--screenshot", picture)
    done = run((PYTHON, EXAMPLE / "notes.py"), *given, home=tmp_path)
    assert done.returncode == 0, done.stderr
    hits = search(f"sqlite:{store}", "good film", bundle)
    expected = [(Path(hit.entry.key).name, f"{hit.score:.2f}") for hit in hits]
    assert names_and_scores(done.stdout) == expected
    assert len(expected) == len(NOTES), "the photo is left out"
    assert "<b>&hello</b>" in done.stdout, "a note's text is no markup"
    assert picture.stat().st_size > 5000


def test_a_student_that_fails_its_self_test_shows_nothing(notes, tmp_path):
    broken = tmp_path / "broken"
    write_bundle(broken, task="feature-extraction")
    change_manifest(broken, lambda m: m["artifacts"][0]["golden"][0].__setitem__(0, 9.0))
    given = (broken, notes, "--store", tmp_path / "v.db", "--query", "good")
    done = run((PYTHON, EXAMPLE / "notes.py"), *given, home=tmp_path)
    assert done.returncode == 1
    assert "golden text 0 is off by" in done.stderr
    assert done.stdout == ""


def test_the_frozen_folder_runs_without_python(bundle, notes, tmp_path):
    made = subprocess.run(
        [PYTHON, EXAMPLE / "freeze.py", bundle, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert made.returncode == 0, made.stderr
    moved = (tmp_path / "out" / "notes").rename(tmp_path / "given away")
    given = (notes, "--store", tmp_path / "v.db", "--query", "dull plot")
    done = run((moved / "notes",), *given, home=tmp_path, path="/nowhere")
    assert done.returncode == 0, done.stderr
    assert names_and_scores(done.stdout)[0][0] == "dull.txt"
    assert not list(moved.rglob("*torch*"))
