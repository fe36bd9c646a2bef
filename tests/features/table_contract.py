"""What every store that is a table of a SQL database must do beyond the contract of all."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pytest

from edgebert.errors import StoreError
from edgebert.features.stores import open_store, table
from edgebert.features.stores.exact import nearest
from tests.features.search_contract import query_of
from tests.features.store_contract import StoreContract
from tests.features.store_data import entries_of, identity_of, vectors_of


class TableContract(StoreContract):
    @pytest.fixture
    def store(self, place):
        with open_store(place) as opened:
            opened.bind(identity_of())
            yield opened

    def test_a_search_in_many_blocks_is_that_in_one(self, store, monkeypatch):
        store.write(entries_of(100), vectors_of(100))
        whole = store.search(query_of(), 20, where={"good": True}, exact=True)
        monkeypatch.setattr(table, "BLOCK_BYTES", 64 * 7)
        with store.transaction():
            assert max(len(rows) for rows in store._blocks({})) == 7
        assert store.search(query_of(), 20, where={"good": True}, exact=True) == whole

    def test_ids_come_page_by_page(self, store, monkeypatch):
        monkeypatch.setattr(table, "IDS_OF_A_PAGE", 7)
        store.write(entries_of(35), vectors_of(35))
        assert list(store.ids()) == sorted(entry.id for entry in entries_of(35))

    def test_ids_go_on_while_others_are_written_and_deleted(self, store, monkeypatch):
        monkeypatch.setattr(table, "IDS_OF_A_PAGE", 7)
        store.write(entries_of(35), vectors_of(35))
        found = []
        for number, name in enumerate(store.ids()):
            store.write(entries_of(1, first=100 + number % 5), vectors_of(1))
            store.delete([name])
            found.append(name)
        assert found == sorted(found)
        assert {entry.id for entry in entries_of(35)} <= set(found)

    def test_vectors_and_journal_change_together_or_not_at_all(self, store):
        store.sql().execute("CREATE TABLE journal (number INTEGER)")

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
        assert store.sql().execute("SELECT sum(number) FROM journal") == [(3,)]

    def test_a_transaction_may_put_and_remove_the_same_entry_again_and_again(self, store):
        entries = entries_of(6)
        ids = [entry.id for entry in entries]
        with store.transaction():
            for seed in range(3):
                store.write(entries, vectors_of(6, seed=seed))
                store.delete(ids[:2])
            store.write(entries, vectors_of(6, seed=9))
            np.testing.assert_array_equal(store.get(ids), vectors_of(6, seed=9))
        assert list(store.ids()) == sorted(ids)

    def test_what_an_unfinished_transaction_wrote_isn_t_there_for_others(self, store, place):
        with open_store(place) as other:
            with store.transaction():
                store.write(entries_of(3), vectors_of(3))
                assert len(other) == 0
                assert other.search(query_of(), 3) == []
            assert len(other) == 3

    def test_a_search_sees_one_state_of_the_store(self, store, place, monkeypatch):
        store.write(entries_of(5), vectors_of(5))

        def interfered(*arguments):
            best = nearest(*arguments)
            with open_store(place) as other:
                other.delete([name for name, _ in best])
            return best

        monkeypatch.setattr(table, "nearest", interfered)
        assert len(store.search(query_of(), 5, exact=True)) == 5
        assert len(store) == 0

    def test_a_failed_statement_undoes_the_transaction_and_no_more(self, store):
        store.write(entries_of(2), vectors_of(2))

        def failing():
            with store.transaction():
                store.write(entries_of(3, first=2), vectors_of(3))
                store.sql().execute("INSERT INTO no_such_table VALUES (?)", [1])

        with pytest.raises(StoreError, match="no_such_table"):
            failing()
        assert len(store) == 2
        store.write(entries_of(3, first=2), vectors_of(3))
        assert len(store) == 5

    def test_a_journal_with_values_of_every_kind(self, store):
        odd = 'it\'s 100 % "sure"? %s \U0001f642'
        sql = store.sql()
        sql.execute('CREATE TABLE IF NOT EXISTS journal ("key" TEXT PRIMARY KEY, n INTEGER)')
        put = 'INSERT INTO journal VALUES (?, ?) ON CONFLICT ("key") DO UPDATE SET n = excluded.n'
        sql.execute_many(put, [(odd, 1), ("b", 2)])
        sql.execute_many(put, [(odd, 3)])
        sql.execute_many(put, [])
        found = sql.execute('SELECT "key", n FROM journal WHERE "key" IN (?, ?)', [odd, "x"])
        assert found == [(odd, 3)]
        assert sql.execute("SELECT n % 2 FROM journal WHERE n = ?", [3]) == [(1,)]
        sql.execute_many(put, [(f"row {n}", n) for n in range(250)])
        sql.execute_many(put, [("twice", 1), ("twice", 2)])
        assert sql.execute("SELECT count(*) FROM journal") == [(253,)]
        assert sql.execute('SELECT n FROM journal WHERE "key" = ?', ["twice"]) == [(2,)]
        sql.execute_many('DELETE FROM journal WHERE "key" = ?', [("twice",), ("none",), ("b",)])
        assert sql.execute("SELECT count(*) FROM journal") == [(251,)]

    def test_two_writers_at_once_lose_and_mix_nothing(self, store, place):
        errors = []

        def write(first):
            with open_store(place) as own:
                for row in range(first, first + 100, 5):
                    for attempt in range(200):
                        try:
                            own.write(entries_of(5, first=row), vectors_of(5, seed=row))
                            break
                        except StoreError as error:  # a conflict: the same may be done again
                            if attempt == 199:
                                errors.append(error)

        writers = [Thread(target=write, args=(first,)) for first in (0, 50)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert errors == []
        assert list(store.ids()) == sorted(entry.id for entry in entries_of(150))
        for row in range(0, 150, 5):
            ids = [entry.id for entry in entries_of(5, first=row)]
            np.testing.assert_array_equal(store.get(ids), vectors_of(5, seed=row))
