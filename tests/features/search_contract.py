"""What a search of every store must find; part of `tests.features.store_contract`."""

from __future__ import annotations

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.features.stores import open_store
from tests.features.store_data import (
    DIM,
    DTYPES,
    ODD_NAMES,
    entries_of,
    entry_of,
    expected_order,
    expected_scores,
    identity_of,
    vectors_of,
)


def query_of(seed=7):
    return np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)


class SearchContract:
    @pytest.fixture
    def filled(self, place):
        """Give a store of 60 float32 entries."""
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(60), vectors_of(60))
            yield store

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_exact_search_is_that_of_the_definition(self, place, dtype):
        entries, vectors, identity = entries_of(60), vectors_of(60, dtype), identity_of(dtype)
        expected = expected_order(entries, vectors, query_of(), identity)
        with open_store(place) as store:
            store.bind(identity)
            store.write(entries, vectors)
            for k in (1, 10, 60, 100):
                hits = store.search(query_of(), k, exact=True)
                assert [hit.entry.id for hit in hits] == [name for name, _ in expected[:k]]
                np.testing.assert_allclose(
                    [hit.score for hit in hits], [score for _, score in expected[:k]], atol=1e-5
                )
            assert {hit.entry.id: hit.entry for hit in hits} == {one.id: one for one in entries}

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_the_index_finds_the_best_with_its_score(self, place, dtype):
        entries, vectors, identity = entries_of(60), vectors_of(60, dtype), identity_of(dtype)
        with open_store(place) as store:
            store.bind(identity)
            store.write(entries, vectors)
            hits = store.search(query_of(), 5)
        ranks = expected_order(entries, vectors, query_of(), identity)
        assert hits[0].score == pytest.approx(ranks[0][1], abs=1e-3)
        assert len(hits) == 5
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        rows = {entry.id: row for row, entry in enumerate(entries)}
        for hit in hits:
            vector = vectors[rows[hit.entry.id]][None]
            score = expected_scores(vector, query_of(), identity)[0]
            assert hit.score == pytest.approx(score, abs=1e-3)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_ties_are_in_the_order_of_ids(self, place, dtype):
        entries, vectors = entries_of(30), vectors_of(30, dtype)
        same = sorted(range(5, 25), key=lambda row: entries[row].id)
        vectors[same] = vectors[5]
        query = np.asarray(vectors[5], np.float32) if dtype == "float32" else query_of()
        with open_store(place) as store:
            store.bind(identity_of(dtype))
            store.write(entries, vectors)
            hits = store.search(query, 30, exact=True)
            order = {entry.id: row for row, entry in enumerate(entries)}
            found = [order[hit.entry.id] for hit in hits if order[hit.entry.id] in same]
            assert found == same
            top = [order[hit.entry.id] for hit in store.search(query, 7, exact=True)]
            assert top == [order[hit.entry.id] for hit in hits[:7]]

    @pytest.mark.parametrize("exact", [True, False])
    @pytest.mark.parametrize(
        "where",
        [
            {"lang": "de"},
            {"lang": "it's"},
            {"year": 2003},
            {"share": 0.625},
            {"good": True},
            {"good": False, "lang": "en"},
            {"note": "1"},
            {"note": None, "year": 2001},
            {"key": "row-17"},
            {"key": "row-17", "lang": "it's"},
            {},
        ],
        ids=str,
    )
    def test_only_what_was_asked_for_is_found(self, filled, where, exact):
        asked = {
            entry.id
            for entry in entries_of(60)
            if all(({**entry.metadata, "key": entry.key})[name] == where[name] for name in where)
        }
        assert asked
        hits = filled.search(query_of(), 60, where=where, exact=exact)
        assert {hit.entry.id for hit in hits} == asked
        if exact:
            best = expected_order(entries_of(60), vectors_of(60), query_of(), identity_of())
            order = [name for name, _ in best if name in asked]
            assert [hit.entry.id for hit in hits] == order
            few = filled.search(query_of(), 2, where=where, exact=True)
            assert [hit.entry.id for hit in few] == order[:2]

    @pytest.mark.parametrize(
        "where",
        [
            {"note": 1},
            {"year": "2003"},
            {"good": "True"},
            {"lang": "de' OR '1'='1"},
            {"key": "row-999"},
            {"nobody": "has this"},
            {"lang": "de", "year": 1999},
            {"lang' OR 1=1 --": "de"},
            {'lang"': "de"},
        ],
        ids=str,
    )
    def test_what_nothing_equals_finds_nothing(self, filled, where):
        for exact in (True, False):
            assert filled.search(query_of(), 5, where=where, exact=exact) == []
        assert len(filled) == 60

    def test_a_filter_takes_any_name(self, place):
        entries = [entry_of(f"of {name}", {name: "it's 1"}) for name in ODD_NAMES]
        entries.append(entry_of("without"))
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors_of(len(entries)))
            for name, entry in zip(ODD_NAMES, entries, strict=False):
                hits = store.search(query_of(), 20, where={name: "it's 1"}, exact=True)
                assert [hit.entry for hit in hits] == [entry]

    @pytest.mark.parametrize(
        "where",
        [
            {"key": 17},
            {"third": 1 / 3 + 1e-12},
            {"yes": 1},
            {"yes": "true"},
            {"one": True},
            {"word": True},
            {"word": "True"},
            {"one": "1"},
            {"none": "null"},
            {"none": ""},
        ],
        ids=str,
    )
    def test_a_filter_tells_values_and_kinds_apart(self, place, where):
        metadata = {"third": 1 / 3, "yes": True, "one": 1, "word": "true", "none": None}
        with open_store(place) as store:
            store.bind(identity_of())
            store.write([entry_of("17", metadata)], vectors_of(1))
            for exact in (True, False):
                assert store.search(query_of(), 5, where=where, exact=exact) == []
                assert len(store.search(query_of(), 5, where=metadata, exact=exact)) == 1

    def test_a_query_that_has_no_answer_is_refused(self, filled):
        for wrong in (np.nan, np.inf):
            query = query_of()
            query[3] = wrong
            with pytest.raises(InputError, match="NaN or infinity"):
                filled.search(query, 3)
        with pytest.raises(InputError, match=f"{DIM}"):
            filled.search(query_of()[:-1], 3)
        with pytest.raises(InputError, match="k"):
            filled.search(query_of(), 0)

    def test_a_query_of_zeros_and_an_entry_of_zeros_are_like_nothing(self, place):
        vectors = vectors_of(3)
        vectors[1] = 0
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(3), vectors)
            hits = store.search(query_of(), 3, exact=True)
            assert {hit.entry.id: hit.score for hit in hits}[entries_of(3)[1].id] == 0
            assert [hit.score for hit in store.search(query_of() * 0, 3, exact=True)] == [0, 0, 0]

    def test_an_entry_of_zeros_is_nearer_than_the_opposite(self, place):
        vectors = vectors_of(100) / 10
        vectors -= query_of() * np.maximum(vectors @ query_of() + 0.1, 0)[:, None]
        vectors[50] = 0
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(100), vectors)
            hits = store.search(query_of(), 2, exact=True)
            assert hits[0].entry == entries_of(100)[50]
            assert hits[0].score == 0 > hits[1].score

    def test_an_empty_store_finds_nothing(self, place):
        with open_store(place) as store:
            assert store.search(query_of(), 3) == []
            store.bind(identity_of())
            assert store.search(query_of(), 3) == []
            assert store.search(query_of(), 3, exact=True) == []
