"""Folders with a FAISS index: the contract, and what FAISS itself makes of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgebert.features.stores import open_store
from edgebert.features.stores.base import full_vectors
from tests.features.index_contract import IndexContract
from tests.features.search_contract import query_of
from tests.features.store_data import entries_of, identity_of, vectors_of

faiss = pytest.importorskip("faiss")
pytestmark = pytest.mark.stores


class TestFaiss(IndexContract):
    kind = "faiss"
    files = ("index.faiss", "vectors.npy", "entries.jsonl")

    def keys(self, path, vectors):
        binary = vectors.dtype == np.uint8
        index = (faiss.read_index_binary if binary else faiss.read_index)(str(path))
        held = np.array([index.reconstruct(row) for row in range(index.ntotal)])
        if not len(held):
            held = held.reshape(0, vectors.shape[1])
        if binary:
            np.testing.assert_array_equal(held, vectors)
        elif vectors.dtype != np.int8:
            full = vectors.astype(np.float64)
            lengths = np.linalg.norm(full, axis=1, keepdims=True)
            np.testing.assert_allclose(held, full / lengths, atol=1e-6)
        return list(range(index.ntotal))


@pytest.fixture
def place(tmp_path):
    return f"faiss:{tmp_path / 'store'}"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
@pytest.mark.parametrize("count", [1, 5000])
def test_the_file_is_what_faiss_writes(place, tmp_path, dtype, count):
    vectors = vectors_of(count, dtype)
    with open_store(place) as store:
        store.bind(identity_of(dtype))
        store.write(entries_of(count), vectors)
    if dtype == "binary":
        index = faiss.IndexBinaryFlat(16)
        index.add(vectors)
        faiss.write_index_binary(index, str(tmp_path / "expected"))
    else:
        full = full_vectors(vectors, identity_of(dtype)).astype(np.float64)
        index = faiss.IndexFlatIP(16)
        index.add((full / np.linalg.norm(full, axis=1, keepdims=True)).astype(np.float32))
        faiss.write_index(index, str(tmp_path / "expected"))
    found = (tmp_path / "store" / "index.faiss").read_bytes()
    expected = (tmp_path / "expected").read_bytes()
    header = len(expected) - count * (2 if dtype == "binary" else 64)
    assert found[:header] == expected[:header]
    kind = np.uint8 if dtype == "binary" else np.float32
    numbers = [np.frombuffer(one[header:], kind) for one in (found, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-6)  # a length is rounded in two ways


def test_faiss_alone_finds_lines_of_the_entries(place, tmp_path):
    entries, vectors = entries_of(50), vectors_of(50)
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries, vectors)
        store.delete([entries[0].id, entries[30].id])
        hits = store.search(query_of(), 5, exact=True)
    index = faiss.read_index(str(tmp_path / "store" / "index.faiss"))
    query = query_of() / np.linalg.norm(query_of())
    scores, rows = index.search(query[None], 5)
    lines = (tmp_path / "store" / "entries.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(lines[row])["id"] for row in rows[0]] == [hit.entry.id for hit in hits]
    np.testing.assert_allclose(scores[0], [hit.score for hit in hits], atol=1e-5)
