"""PostgreSQL with pgvector, a real server: the contract of every store, and what is its own."""

from __future__ import annotations

import sys
import uuid
from threading import Thread

import numpy as np
import pytest

from edgebert.errors import InputError, PackageMissingError, StoreError
from edgebert.features.stores import open_store, postgresql
from tests.features.search_contract import query_of
from tests.features.store_data import entries_of, entry_of, identity_of, vectors_of
from tests.features.table_contract import TableContract

pytestmark = pytest.mark.stores
psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def place(postgres):
    """Give the URL of a table that isn't there yet."""
    return postgres.url(table=f"T_{uuid.uuid4().hex}")


@pytest.fixture
def store(place):
    with open_store(place) as opened:
        opened.bind(identity_of())
        yield opened


@pytest.fixture
def other(postgres):
    """Give a connection of another program."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        yield connection


class TestPostgres(TableContract):
    kind = "postgresql"

    @pytest.fixture
    def place(self, place):
        return place

    def path(self, place):
        del place

    test_what_is_not_a_store_is_refused_and_left_as_it_was = None  # below, of a table


def test_another_program_s_table_is_refused_and_left_as_it_was(place, other):
    name = place.rpartition("=")[2]
    other.execute(f'CREATE TABLE "{name}" (id text)')
    other.execute(f"INSERT INTO \"{name}\" VALUES ('mine')")
    for read_only in (False, True):
        with pytest.raises(InputError, match=name):
            open_store(place, read_only=read_only)
    assert other.execute(f'SELECT * FROM "{name}"').fetchall() == [("mine",)]


@pytest.mark.parametrize("name", ["", "1st", "a b", 'a"; DROP TABLE x;--', "a" * 41, "é"])
def test_a_name_that_would_need_quotes_is_refused(postgres, name):
    with pytest.raises(InputError, match="names no table"):
        open_store(postgres.url(table=name))


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("float32", "vector(16)"),
        ("float16", "halfvec(16)"),
        ("binary", "bit(16)"),
        ("int8", "bytea"),
    ],
)
def test_vectors_have_a_type_that_the_server_knows(place, other, dtype, kind):
    with open_store(place) as store:
        store.bind(identity_of(dtype))
        found = other.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attname = 'vector'",
            [store.table],
        )
        assert found.fetchall() == [(kind,)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "binary"])
def test_an_index_is_made_and_used(place, dtype):
    entries, vectors = entries_of(300), vectors_of(300, dtype)
    with open_store(f"{place}&index=hnsw") as store:
        store.bind(identity_of(dtype))
        store.write(entries, vectors)
    with open_store(place) as store:
        best = [hit.entry.id for hit in store.search(query_of(), 10, exact=True)]
        near = [hit.entry.id for hit in store.search(query_of(), 10)]
        assert len(set(best) & set(near)) >= 8
        used = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = ?"
        sql = store.sql()
        with store.transaction():
            sql.execute("SET LOCAL enable_seqscan = off")
            store.search(query_of(), 10)
            hits = store.search(query_of(), 50, where={"year": 2003})
        assert len(hits) == 50  # of 60; the index gives 114, of which a fifth is of that year
        sql.execute("SELECT pg_stat_force_next_flush()")
        assert sql.execute(used, [f"{store._name}_hnsw"])[0][0] >= 1


def test_an_index_for_int8_is_refused_and_leaves_nothing(place):
    with open_store(f"{place}&index=hnsw") as store:
        with pytest.raises(InputError, match="int8"):
            store.bind(identity_of("int8"))
        assert store.identity is None
    with pytest.raises(InputError, match="isn't there"):
        open_store(place, read_only=True)


def test_a_server_without_pgvector_is_told_and_left_as_it_was(place, monkeypatch):
    monkeypatch.setattr(postgresql, "_EXTENSION", "no_such_extension")
    with open_store(place) as store:
        with pytest.raises(InputError, match=r"no_such_extension.*Install it there"):
            store.bind(identity_of())
        assert store.identity is None
        store.bind(identity_of("int8"))
        store.write(entries_of(3), vectors_of(3, "int8"))
        assert len(store) == 3


def test_many_ties_are_cut_by_id(store):
    entries, vectors = entries_of(200), np.repeat(vectors_of(1), 200, axis=0)
    store.write(entries, vectors)
    assert store._indexed(query_of(), 5, {}, exact=True) is None
    found = [hit.entry.id for hit in store.search(query_of(), 5, exact=True)]
    assert found == sorted(entry.id for entry in entries)[:5]


def test_what_the_server_has_no_type_for_comes_back(store, other):
    entries = [
        entry_of("nul \0 key", {"a\0b": "c\0d \\u0000", "n": 1.5}, text="text \0 \\u0000"),
        entry_of("inf", {"low": float("-inf"), "nan": float("nan")}),
    ]
    store.write(entries, vectors_of(2))
    found = store.entries([entry.id for entry in entries])
    assert found[0] == entries[0]
    assert repr(found[1]) == repr(entries[1])  # NaN equals nothing
    assert store.search(query_of(), 5, where={"n": 1.5})[0].entry == entries[0]
    assert store.search(query_of(), 5, where={"a": "c\0d"}) == []
    shown = other.execute(f"SELECT text, metadata ->> 'n' FROM {store.table} ORDER BY text")
    assert shown.fetchall()[-1] == ("text \u2400 \\u0000", "1.5")


def test_a_lost_connection_is_made_again_at_the_next_call(store, other):
    store.write(entries_of(2), vectors_of(2))
    _cut(other)
    with pytest.raises(StoreError, match="store"):
        store.write(entries_of(4), vectors_of(4))
    store.write(entries_of(4), vectors_of(4))
    assert len(store) == 4


def test_a_transaction_that_lost_its_connection_is_undone(store, other):
    def losing():
        with store.transaction():
            store.write(entries_of(2), vectors_of(2))
            _cut(other)
            for _ in range(2):  # also when its caller goes on
                with pytest.raises(StoreError):
                    store.write(entries_of(4), vectors_of(4))

    with pytest.raises(StoreError):
        losing()
    assert len(store) == 0
    store.write(entries_of(4), vectors_of(4))
    assert len(store) == 4


def test_a_lock_goes_over_to_the_next_connection_or_ends_the_run(store, other):
    take = "SELECT pg_try_advisory_lock(hashtext(?))"
    taken = "SELECT pg_try_advisory_lock(hashtext('run'))"
    assert store.sql().execute(take, ["run"]) == [(True,)]
    _cut(other)
    with pytest.raises(StoreError):
        len(store)
    assert len(store) == 0
    assert other.execute(taken).fetchone() == (False,)
    _cut(other)
    assert other.execute(taken).fetchone() == (True,)
    for _ in range(3):
        with pytest.raises(StoreError):
            store.write(entries_of(1), vectors_of(1))
    other.execute("SELECT pg_advisory_unlock_all()")
    store.write(entries_of(1), vectors_of(1))


def test_what_was_written_outlives_a_crash_of_the_server(store, postgres):
    store.write(entries_of(20), vectors_of(20))
    postgres.stop()
    for _ in range(2):
        with pytest.raises(StoreError):
            len(store)
    postgres.start()
    np.testing.assert_array_equal(store.get([one.id for one in entries_of(20)]), vectors_of(20))


def test_a_server_that_isn_t_there_is_an_error_without_the_password():
    with pytest.raises(StoreError) as error:
        open_store("postgresql://me:s3cret@127.0.0.1:1/db?table=notes")
    assert "s3cret" not in str(error.value)
    assert "notes" in str(error.value)


def test_stores_of_one_database_have_a_journal_each(postgres):
    names = [f"T_{uuid.uuid4().hex}" for _ in range(2)]
    for number, name in enumerate(names):
        with open_store(postgres.url(table=name)) as store:
            store.bind(identity_of(pooling=name))
            store.sql().execute("CREATE TABLE IF NOT EXISTS journal (n integer)")
            store.sql().execute("INSERT INTO journal VALUES (?)", [number])
    for number, name in enumerate(names):
        with open_store(postgres.url(table=name), read_only=True) as store:
            assert store.identity.pooling == name
            assert store.sql().execute("SELECT n FROM journal") == [(number,)]


def test_two_that_bind_at_once_bind_the_same(place):
    errors = []

    def bind():
        try:
            with open_store(place) as own:
                own.bind(identity_of())
                own.write(entries_of(5), vectors_of(5))
        except StoreError as error:
            errors.append(error)

    threads = [Thread(target=bind) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_store(place) as store:
        assert len(store) == 5


def test_without_its_package_the_message_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "edgebert.features.stores.postgresql_connection")
    with pytest.raises(PackageMissingError, match=r"pip install 'edgebert\[postgresql\]'"):
        open_store("postgresql://nobody@127.0.0.1/db")


def _cut(other):
    """End all connections but this one, as a network or an administrator would."""
    other.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
