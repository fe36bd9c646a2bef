"""Chroma keeps the contract of stores, and what is its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.features.stores import open_store
from tests.features.store_contract import StoreContract
from tests.features.store_data import entries_of, entry_of, identity_of, vectors_of

pytestmark = pytest.mark.stores


class TestChromaStore(StoreContract):
    kind = "chroma"


@pytest.fixture
def place(tmp_path):
    return f"chroma:{tmp_path / 'store'}"


def opened(folder):
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))


def test_chroma_itself_finds_texts_and_the_metadata_that_it_can_keep(place, tmp_path):
    kept = {"lang": "de", "year": 2001}
    entry = entry_of("a", kept | {"none": None, "huge": 2**70, "edgebert_vector": "mine"})
    with open_store(place) as store:
        store.bind(identity_of("int8"))
        store.write([entry], vectors_of(1, "int8"))
        assert store.entries([entry.id]) == [entry]
    with opened(tmp_path / "store") as client:
        found = client.get_collection("entries", embedding_function=None).get(
            where={"lang": "de"}, include=["documents", "metadatas", "embeddings"]
        )
        assert found["documents"] == [entry.text]
        metadata = found["metadatas"][0]
        assert {k: v for k, v in metadata.items() if not k.startswith("edgebert")} == kept
        full = vectors_of(1, "int8")[0] * np.asarray(identity_of("int8").int8_scale)
        length = np.linalg.norm(found["embeddings"][0]) / np.linalg.norm(full)
        np.testing.assert_allclose(found["embeddings"][0], full * length, rtol=1e-5)


def test_metadata_that_an_entry_no_longer_has_are_gone(place, tmp_path):
    entry = entry_of("a", {"lang": "de", "old": 1})
    with open_store(place) as store:
        store.bind(identity_of())
        store.write([entry], vectors_of(1))
        store.write([replace(entry, metadata={"lang": "fr"})], vectors_of(1))
        query = vectors_of(1)[0]
        assert store.search(query, 3, where={"old": 1}) == []
        assert store.search(query, 3, where={"lang": "de"}) == []
        assert len(store.search(query, 3, where={"lang": "fr", "old": None})) == 1
    with opened(tmp_path / "store") as client:
        found = client.get_collection("entries", embedding_function=None).get()["metadatas"][0]
        assert {name for name in found if not name.startswith("edgebert")} == {"lang"}


def test_entries_of_several_calls_are_all_found(place, monkeypatch):
    monkeypatch.setattr("edgebert.features.stores.chroma._ROWS", 7)
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries_of(30), vectors_of(30))
        assert len(store.search(vectors_of(1)[0], 30, exact=True)) == 30
        store.delete([entry.id for entry in entries_of(16)])
        assert list(store.ids()) == sorted(entry.id for entry in entries_of(30)[16:])


@pytest.mark.parametrize("name", ["entries", "theirs"])
def test_a_folder_of_another_program_is_refused(place, tmp_path, name):
    with opened(tmp_path / "store") as client:
        client.create_collection(name, embedding_function=None)
    with pytest.raises(InputError, match=r"edgebert's|other collections"):
        open_store(place)


def test_telemetry_is_off(place):
    with open_store(place) as store:
        store.bind(identity_of())
        assert store._client.get_settings().anonymized_telemetry is False
