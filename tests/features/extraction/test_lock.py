"""Where the lock of a store is."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from edgebert.errors import InputError
from edgebert.features.lock import lock_server, locked, place_of


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("notes.db", Path("notes.db")),
        ("sqlite:a/notes.db", Path("a/notes.db")),
        ("sqlite:///a/notes.db", Path("/a/notes.db")),
        ("lancedb:folder", Path("folder")),
        ("qdrant:folder", Path("folder")),
        ("qdrant:http://host:6333/notes", None),
        ("postgresql://user@host/db?table=notes", None),
        ("postgres://host/db", None),
    ],
)
def test_a_store_of_files_has_a_place_and_a_server_has_none(uri, place):
    found = place_of(uri)
    assert found == place or (found and place and found.resolve() == place.resolve())


@pytest.mark.parametrize("uri", ["sqlite:", "", "sqlite:/", "parquet:a\0b"])
def test_a_place_without_a_name_is_an_error(uri):
    with pytest.raises(InputError, match="names no file or folder"):
        place_of(uri)


def test_the_folder_we_are_in_has_a_name(tmp_path, monkeypatch):
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    assert place_of("lancedb:.") == tmp_path.resolve() / "a/b"
    assert place_of("lancedb:..") == tmp_path.resolve() / "a"


def test_a_lock_is_taken_once_and_free_again_after_its_block(tmp_path):
    place = tmp_path / "s"
    for _ in range(2):
        with locked(place), pytest.raises(InputError, match="Another run"), locked(place):
            pass


def test_an_error_gives_a_lock_back(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "s"):
        raise KeyError
    with locked(tmp_path / "s"):
        pass


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="can't be made"), locked(tmp_path / "file" / "s"):
        pass


def test_a_lock_that_a_server_frees_late_is_waited_for(monkeypatch):
    monkeypatch.setattr("edgebert.features.lock._PAUSE_SECONDS", 0)
    taken = iter([False, False, True])
    database = SimpleNamespace(execute=lambda statement, values: [(next(taken),)])  # noqa: ARG005
    store = SimpleNamespace(journal_path=lambda: None, sql=lambda: database)
    with lock_server(store, "postgresql://host/db", name="notes"):
        assert not list(taken)


def test_a_lock_that_a_server_does_not_free_is_an_error(monkeypatch):
    monkeypatch.setattr("edgebert.features.lock._PAUSE_SECONDS", 0)
    database = SimpleNamespace(execute=lambda statement, values: [(False,)])  # noqa: ARG005
    store = SimpleNamespace(journal_path=lambda: None, sql=lambda: database)
    with pytest.raises(InputError, match="Another run is writing to notes"):
        lock_server(store, "postgresql://host/db", name="notes")
