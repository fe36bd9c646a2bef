"""What every store must do, a test for each sentence of ``edgebert/features/stores/base.py``.

A store's test file inherits it::

    class TestSqlite(StoreContract):
        kind = "sqlite"

and gets everything, a server's store with a fixture `place` of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.features.stores import open_store
from tests.features.place_contract import PlaceContract
from tests.features.search_contract import SearchContract
from tests.features.store_data import (
    DIM,
    DTYPES,
    ODD_NAMES,
    ODD_TEXTS,
    entries_of,
    entry_of,
    identity_of,
    vectors_of,
)


class StoreContract(PlaceContract, SearchContract):
    # Identity

    def test_a_new_place_is_an_empty_store(self, place):
        with open_store(place) as store:
            assert store.identity is None
            assert len(store) == 0
            assert list(store.ids()) == []
            assert store.entries([]) == []
            store.delete(["0" * 32])

    def test_a_store_that_was_never_bound_leaves_nothing_behind(self, place):
        open_store(place).close()
        path = self.path(place)
        assert path is None or not path.parent.exists()

    def test_nothing_is_written_before_the_store_is_bound(self, place):
        with open_store(place) as store, pytest.raises(InputError, match="bind"):
            store.write(entries_of(1), vectors_of(1))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_the_identity_is_kept(self, place, dtype):
        with open_store(place) as store:
            store.bind(identity_of(dtype))
            store.bind(identity_of(dtype))
            assert store.identity == identity_of(dtype)
        with open_store(place) as store:
            assert store.identity == identity_of(dtype)
            store.bind(identity_of(dtype))

    def test_another_identity_is_refused_and_its_differences_are_named(self, place):
        with open_store(place) as store:
            store.bind(identity_of())
            with pytest.raises(InputError, match="pooling"):
                store.bind(identity_of(pooling="cls"))
        with open_store(place) as store:
            with pytest.raises(InputError, match="bundle"):
                store.bind(identity_of(bundle="cd" * 32))
            assert store.identity == identity_of()

    # Entries and vectors

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_vectors_come_back_bit_for_bit_in_the_order_asked(self, place, dtype):
        entries, vectors = entries_of(50), vectors_of(50, dtype)
        if vectors.dtype.kind == "f":
            vectors[0, :3] = [-0.0, 1e-7, 0]
        with open_store(place) as store:
            store.bind(identity_of(dtype))
            store.write(entries, vectors)
        with open_store(place) as store:
            assert len(store) == 50
            order = [41, 0, 7, 7, 49]
            found = store.get([entries[row].id for row in order])
            assert found.dtype == vectors.dtype
            assert found.tobytes() == vectors[order].tobytes()
            assert store.get([]).shape == (0, vectors.shape[1])
            assert store.get([]).dtype == vectors.dtype

    def test_ids_rise(self, place):
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(40), vectors_of(40))
            store.write(entries_of(40, first=40), vectors_of(40))
            assert list(store.ids()) == sorted(entry.id for entry in entries_of(80))

    def test_entries_keep_every_type_of_metadata(self, place):
        entries = [
            entry_of("a", {"s": "1", "i": 1, "f": 1.0, "yes": True, "no": False, "none": None}),
            entry_of("b", {"big": 2**53 + 1, "low": -(2**40), "tiny": 1e-300, "third": 1 / 3}),
            entry_of("c", {"s": 5, "i": "other types under the same names", "f": True}),
            entry_of("d"),
        ]
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors_of(4))
        with open_store(place) as store:
            found = store.entries([entry.id for entry in reversed(entries)])
            assert found[::-1] == entries
            for mine, theirs in zip(found[::-1], entries, strict=True):
                assert repr(dict(mine.metadata)) == repr(dict(theirs.metadata))  # 1 is not True

    def test_odd_texts_keys_and_names_come_back(self, place):
        entries = [
            entry_of(text, dict.fromkeys(ODD_NAMES, text), chunk=row, text=text)
            for row, text in enumerate(ODD_TEXTS)
        ]
        entries.append(entry_of("long", text="wörd " * 20_000))
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors_of(len(entries)))
        with open_store(place) as store:
            assert store.entries([entry.id for entry in entries]) == entries

    def test_more_entries_than_a_statement_has_room_for(self, place):
        entries, vectors = entries_of(2500), vectors_of(2500)
        ids = [entry.id for entry in entries]
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors)
            np.testing.assert_array_equal(store.get(ids[::-1]), vectors[::-1])
            assert store.entries(ids) == entries
            store.delete(ids[1:])
            assert list(store.ids()) == ids[:1]

    @pytest.mark.parametrize("name", ["f" * 32, "no such id", "' OR 1=1; DROP TABLE entries; --"])
    def test_an_unknown_id_is_named(self, place, name):
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(3), vectors_of(3))
            known = entries_of(1)[0].id
            for ask in (store.get, store.entries):
                with pytest.raises(InputError) as error:
                    ask([known, name])
                assert repr(name) in str(error.value)
            store.delete([name])
            assert len(store) == 3

    # Writing

    def test_the_same_again_changes_nothing(self, place):
        entries, vectors = entries_of(20), vectors_of(20)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors)
            store.write(entries, vectors)
            store.write([], vectors[:0])
            assert len(store) == 20
            np.testing.assert_array_equal(store.get([entry.id for entry in entries]), vectors)

    def test_an_entry_of_the_same_id_is_replaced(self, place):
        old, new = entries_of(6), entries_of(6)
        new[2] = type(new[2])(**{**_fields(new[2]), "metadata": {"lang": "fr"}})
        vectors = vectors_of(6, seed=1)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(old, vectors_of(6))
            store.write(new[2:4], vectors[2:4])
        with open_store(place) as store:
            assert len(store) == 6
            assert store.entries([entry.id for entry in new]) == new
            np.testing.assert_array_equal(store.get([new[2].id, new[3].id]), vectors[2:4])
            hits = store.search(vectors[2], 6, exact=True)
            assert sorted(hit.entry.id for hit in hits) == sorted(entry.id for entry in new)

    def test_what_is_deleted_is_gone_and_may_come_back(self, place):
        entries, vectors = entries_of(6), vectors_of(6)
        gone = [entries[1].id, entries[4].id]
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors)
            store.delete(gone)
            store.delete([*gone, "0" * 32])
            store.delete([])
        with open_store(place) as store:
            assert len(store) == 4
            assert set(gone).isdisjoint(store.ids())
            assert set(gone).isdisjoint(hit.entry.id for hit in store.search(vectors[1], 6))
            with pytest.raises(InputError, match=gone[0]):
                store.get(gone)
            store.write([entries[1]], vectors[1:2])
            np.testing.assert_array_equal(store.get([entries[1].id]), vectors[1:2])

    @pytest.mark.parametrize("wrong", ["rows", "width", "dtype", "nan", "twice"])
    def test_what_can_t_be_written_changes_nothing(self, place, wrong):
        entries, vectors = entries_of(3), vectors_of(3)
        if wrong == "rows":
            vectors = vectors[:2]
        elif wrong == "width":
            vectors = vectors[:, : DIM - 1]
        elif wrong == "dtype":
            vectors = vectors.astype(np.float64)
        elif wrong == "nan":
            vectors[1, 1] = np.nan
        else:
            entries[2] = entries[0]
        with open_store(place) as store:
            store.bind(identity_of())
            with pytest.raises(InputError):
                store.write(entries, vectors)
            assert len(store) == 0


def _fields(entry):
    return {name: getattr(entry, name) for name in entry.__dataclass_fields__}
