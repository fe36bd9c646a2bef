"""Folders with a USearch index: the contract, and what USearch itself makes of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgebert.features.stores import open_store
from tests.features.index_contract import IndexContract
from tests.features.search_contract import query_of
from tests.features.store_data import entries_of, identity_of, vectors_of

usearch = pytest.importorskip("usearch.index")
pytestmark = pytest.mark.stores


class TestUsearch(IndexContract):
    kind = "usearch"
    files = ("index.usearch", "vectors.npy", "entries.jsonl")

    def keys(self, path, vectors):
        index = usearch.Index.restore(path, view=True)
        assert len(index) == len(vectors)
        return sorted(np.asarray(index.keys[:]).tolist())


@pytest.fixture
def place(tmp_path):
    return f"usearch:{tmp_path / 'store'}"


def recall(store, queries, k):
    found = 0
    for query in queries:
        exact = {hit.entry.id for hit in store.search(query, k, exact=True)}
        found += len(exact & {hit.entry.id for hit in store.search(query, k)})
    return found / (k * len(queries))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_it_finds_nearly_all_after_many_additions_and_removals(place, dtype):
    entries, vectors = entries_of(3000), vectors_of(3000, dtype)
    for first in range(0, 3000, 1000):
        with open_store(place) as store:
            store.bind(identity_of(dtype))
            store.write(entries[first : first + 1000], vectors[first : first + 1000])
            store.delete([entry.id for entry in entries[first : first + 1000 : 7]])
            if first:
                store.delete([entry.id for entry in entries[first - 1000 : first : 5]])
    queries = np.random.default_rng(5).standard_normal((30, 16)).astype(np.float32)
    with open_store(place, read_only=True) as store:
        assert recall(store, queries, 10) >= 0.95


def test_usearch_alone_finds_lines_of_the_entries(place, tmp_path):
    entries, vectors = entries_of(50), vectors_of(50)
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries, vectors)
    with open_store(place) as store:
        store.delete([entries[0].id, entries[30].id])
        hits = store.search(query_of(), 5, exact=True)
    index = usearch.Index.restore(tmp_path / "store" / "index.usearch", view=True)
    found = index.search(query_of(), 5)
    lines = (tmp_path / "store" / "entries.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(lines[row])["id"] for row in found.keys] == [hit.entry.id for hit in hits]
    np.testing.assert_allclose(1 - found.distances, [hit.score for hit in hits], atol=2e-3)


def test_an_index_grows_without_being_built_anew(place, monkeypatch):
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries_of(300), vectors_of(300))
    added = []
    original = usearch.Index.add
    monkeypatch.setattr(
        usearch.Index,
        "add",
        lambda index, keys, block: (added.extend(keys), original(index, keys, block))[1],
    )
    with open_store(place) as store:
        store.delete([entries_of(1)[0].id])
        store.write(entries_of(10, first=300), vectors_of(10))
    assert added == list(range(299, 309))
