"""SQLite: the contract of every store, with `apsw` and without, and what is its own."""

from __future__ import annotations

import os
import sqlite3
import sys
from threading import Thread

import numpy as np
import pytest

from edgebert.errors import InputError, StoreError
from edgebert.features.stores import open_store, sqlite, table
from tests.features.search_contract import query_of
from tests.features.store_contract import StoreContract
from tests.features.store_data import entries_of, identity_of, vectors_of


class TestSqlite(StoreContract):
    kind = "sqlite"


class TestSqliteWithoutApsw(StoreContract):
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
        store.write(entries_of(1), vectors_of(1, dtype) * 0)
        assert store._indexed(query_of(), 5, {}) is not None
        for seed in range(5):
            quick = store.search(query_of(seed), 20, where=where)
            assert quick == store.search(query_of(seed), 20, where=where, exact=True)
            assert quick


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_what_sqlite_vec_has_no_distance_for_is_searched_exactly(tmp_path, dtype):
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as store:
        store.bind(identity_of(dtype))
        assert store._indexed(query_of(), 5, {}) is None


def test_a_search_in_many_blocks_is_that_in_one(store, monkeypatch):
    store.write(entries_of(100), vectors_of(100))
    whole = store.search(query_of(), 20, where={"good": True}, exact=True)
    monkeypatch.setattr(sqlite, "BLOCK_BYTES", 64 * 7)
    assert max(len(rows) for rows in store._blocks({})) == 7
    assert store.search(query_of(), 20, where={"good": True}, exact=True) == whole


def test_ids_come_page_by_page(store, monkeypatch):
    monkeypatch.setattr(table, "IDS_OF_A_PAGE", 7)
    store.write(entries_of(35), vectors_of(35))
    assert list(store.ids()) == sorted(entry.id for entry in entries_of(35))


def test_vectors_and_journal_change_together_or_not_at_all(store):
    store.sql().execute("CREATE TABLE journal (row INTEGER)")

    def interrupted():
        with store.transaction():
            store.write(entries_of(3), vectors_of(3))
            store.sql().execute("INSERT INTO journal VALUES (?)", [1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(store) == 0
    assert store.sql().execute("SELECT * FROM journal") == []
    with store.transaction():
        store.write(entries_of(3), vectors_of(3))
        store.delete([entries_of(1)[0].id])
        store.sql().execute_many("INSERT INTO journal VALUES (?)", [[1], [2]])
    assert len(store) == 2
    assert store.sql().execute("SELECT sum(row) FROM journal") == [(3,)]


def test_what_an_unfinished_transaction_wrote_isn_t_there_for_others(store, tmp_path):
    with open_store(f"sqlite:{tmp_path / 'store.db'}") as other:
        with store.transaction():
            store.write(entries_of(3), vectors_of(3))
            assert len(other) == 0
        assert len(other) == 3


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


def test_two_writers_at_once_take_turns(store, tmp_path):
    def write(first):
        with open_store(f"sqlite:{tmp_path / 'store.db'}") as own:
            for row in range(first, first + 100, 5):
                own.write(entries_of(5, first=row), vectors_of(5, seed=row))

    writers = [Thread(target=write, args=(first,)) for first in (0, 50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert list(store.ids()) == sorted(entry.id for entry in entries_of(150))
    for row in range(0, 150, 5):
        ids = [entry.id for entry in entries_of(5, first=row)]
        np.testing.assert_array_equal(store.get(ids), vectors_of(5, seed=row))


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


def test_a_store_in_a_folder_that_can_t_be_written_is_read(store, tmp_path, monkeypatch):
    store.write(entries_of(3), vectors_of(3))
    store.close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with open_store(f"sqlite:{tmp_path / 'store.db'}", read_only=True) as reader:
        assert len(reader) == 3
        assert [one.name for one in tmp_path.iterdir()] == ["store.db"]


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
