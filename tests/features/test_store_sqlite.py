"""SQLite: the contract of every store, with `apsw` and without, and what is its own."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from edgebert.errors import InputError, StoreError
from edgebert.features.stores import open_store, sqlite
from tests.features.search_contract import query_of
from tests.features.store_data import entries_of, identity_of, vectors_of
from tests.features.table_contract import TableContract


class TestSqlite(TableContract):
    kind = "sqlite"


class TestSqliteWithoutApsw(TableContract):
    kind = "sqlite"

    @pytest.fixture(autouse=True)
    def without_apsw(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "apsw", None)


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as opened:
        opened.bind(identity_of())
        yield opened


def test_a_path_alone_is_sqlite(tmp_path):
    with open_store(str(tmp_path / "notes.db")) as store:
        assert store.kind == "sqlite"


@pytest.mark.parametrize("dtype", ["float32", "binary"])
@pytest.mark.parametrize("where", [None, {"lang": "de", "good": True}, {"share": 1.5}])
def test_sqlite_vec_finds_what_an_exact_search_finds(tmp_path, dtype, where):
    pytest.importorskip("sqlite_vec")
    pytest.importorskip("apsw")
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as store:
        store.bind(identity_of(dtype))
        store.write(entries_of(500), vectors_of(500, dtype))
        store.write(entries_of(60), vectors_of(60, dtype) * 0)
        assert store._indexed(query_of(), 5, {}, exact=False) is not None
        for seed in range(5):
            quick = store.search(query_of(seed), 20, where=where)
            assert quick == store.search(query_of(seed), 20, where=where, exact=True)
            assert quick


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_what_sqlite_vec_has_no_distance_for_is_searched_exactly(tmp_path, dtype):
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as store:
        store.bind(identity_of(dtype))
        assert store._indexed(query_of(), 5, {}, exact=False) is None


def test_each_transaction_is_synchronized_to_the_disk(store, tmp_path):
    assert store.sql().execute("PRAGMA synchronous") == [(2,)]  # FULL
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as again:
        assert again.sql().execute("PRAGMA synchronous") == [(2,)]


def test_a_writer_that_waits_too_long_may_try_again(store, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_WAIT_S", 0)
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as other:
        with store.transaction(), pytest.raises(StoreError, match="locked"):
            other.write(entries_of(3), vectors_of(3))
        other.write(entries_of(3), vectors_of(3))
    assert len(store) == 3


def test_the_database_of_another_program_is_refused_and_left_as_it_was(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE entries (id TEXT)")
    other.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(InputError, match=r"other\.db"):
            open_store(f"sqlite:{path}", read_only=read_only)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["other.db"]


def test_a_closed_store_is_one_file_and_stays_so_when_it_is_read(store, tmp_path):
    store.write(entries_of(3), vectors_of(3))
    assert (tmp_path / "store.db-wal").exists()
    store.close()
    assert [one.name for one in tmp_path.iterdir()] == ["store.db"]
    with open_store(f"sqlite:{tmp_path / 'store.db'}", read_only=True) as reader:
        assert len(reader) == 3
        assert [one.name for one in tmp_path.iterdir()] == ["store.db"]


def test_a_reader_sees_what_a_later_writer_puts_and_hinders_nobody(store, tmp_path):
    store.close()
    place = f"sqlite:{tmp_path / 'store.db'}"
    with open_store(place, read_only=True) as reader:
        assert len(reader) == 0
        for count in (3, 6):
            with open_store(place) as writer:
                writer.write(entries_of(count), vectors_of(count))
                assert len(reader) == count
            assert len(reader) == count
    with open_store(place) as writer:
        assert len(writer) == 6


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "store.db").touch()
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as store:
        assert store.identity is None
        store.bind(identity_of())
        store.write(entries_of(3), vectors_of(3))
        assert len(store) == 3


def test_a_text_that_isn_t_unicode_is_refused_whole(store):
    entries = entries_of(3)
    lone = type(entries[0])(id="0" * 32, key="k", chunk=0, start=0, end=1, text="\ud800")
    with pytest.raises(InputError, match="Unicode"):
        store.write([*entries, lone], vectors_of(4))
    assert len(store) == 0


def test_a_damaged_file_is_told_with_what_to_do(store, tmp_path):
    store.write(entries_of(50), vectors_of(50))
    store.close()
    path = tmp_path / "store.db"
    path.write_bytes(path.read_bytes()[:4096] + b"x" * (path.stat().st_size - 4096))
    said = r"malformed\. Restore it from a copy, or extract anew into another place\."
    with pytest.raises(StoreError, match=said), open_store(f"sqlite:{path}", read_only=True) as cut:
        list(cut.ids())
