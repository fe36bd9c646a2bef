"""Files that are whole or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from edgebert.errors import InputError
from edgebert.files import recover_directory, sha256_file, whole_directory, write_bytes, write_json


def _fill_the_disk(building):
    (building / "a").write_text("new")
    raise OSError("disk full")


def _gone_pid() -> int:
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        text=True,
        capture_output=True,
        check=True,
    )
    return int(child.stdout)


def test_an_error_while_building_leaves_the_old_directory(tmp_path):
    target = tmp_path / "out"
    with whole_directory(target) as building:
        (building / "a").write_text("old")
    with pytest.raises(OSError, match="disk full"), whole_directory(target) as building:
        _fill_the_disk(building)
    assert (target / "a").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_new_directory_takes_the_place_of_the_old_one_whole(tmp_path):
    target = tmp_path / "out"
    for name in ("a", "b"):
        with whole_directory(target) as building:
            (building / name).write_text(name)
    assert [path.name for path in target.iterdir()] == ["b"]


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    aside = tmp_path / f".out.{_gone_pid()}.old"
    aside.mkdir()
    (aside / "a").write_text("old")
    recover_directory(tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "old"


def test_what_a_killed_process_half_built_is_removed(tmp_path):
    (tmp_path / f".out.{_gone_pid()}.part").mkdir()
    with whole_directory(tmp_path / "out"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_running_process_builds_is_left_alone(tmp_path):
    theirs = tmp_path / f".out.{os.getppid()}.part"
    theirs.mkdir()
    recover_directory(tmp_path / "out")
    assert theirs.is_dir()


def test_nan_is_not_written_as_json(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "a.json", {"score": float("nan")})
    assert not list(tmp_path.iterdir())


def test_the_hash_is_that_of_the_bytes(tmp_path):
    write_bytes(tmp_path / "a", b"abc")
    # the example of FIPS 180-4
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(tmp_path / "a") == expected


def test_a_folder_below_a_file_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match="Can't write to"),
        whole_directory(tmp_path / "file" / "x"),
    ):
        pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, -2.5e-7], "b": []}, '{\n  "a": [1, -2.5e-07],\n  "b": []\n}\n'),
        ([[1], ["1"]], '[\n  [1],\n  [\n    "1"\n  ]\n]\n'),
        (["[\n1\n]", [None]], '[\n  "[\\n1\\n]",\n  [\n    null\n  ]\n]\n'),
    ],
)
def test_lists_of_numbers_and_they_alone_have_one_line(tmp_path, value, text):
    write_json(tmp_path / "a.json", value)
    assert (tmp_path / "a.json").read_text() == text
    assert json.loads(text) == value
