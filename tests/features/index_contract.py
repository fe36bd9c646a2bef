"""What folders with an index promise: the index is right, or it isn't asked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from edgebert.errors import InputError, PackageMissingError
from edgebert.features.stores import STORES, open_store
from edgebert.features.stores.indexed import IndexedStore
from tests.features.folder_contract import FolderContract, data, fill, tree_of
from tests.features.search_contract import query_of
from tests.features.store_data import (
    DTYPES,
    entries_of,
    expected_order,
    expected_scores,
    identity_of,
    vectors_of,
)

COUNT = 400


class IndexContract(FolderContract):
    def outside(self, folder):
        lines = (folder / "entries.jsonl").read_text(encoding="utf-8").splitlines()
        vectors = np.load(folder / "vectors.npy")
        if (folder / self.files[0]).exists():
            assert self.keys(folder / self.files[0], vectors) == list(range(len(vectors)))
        return [json.loads(line)["id"] for line in lines], vectors

    def keys(self, path, vectors):
        """Give the key of each vector that stands in an index, as its own library says."""
        raise NotImplementedError

    @pytest.fixture
    def asked(self, monkeypatch):
        """Count what an index is asked."""
        found = []
        kind = next(one for one in IndexedStore.__subclasses__() if one.kind == self.kind)
        original = kind._ask

        def ask(store, index, query, count):
            found.append(count)
            return original(store, index, query, count)

        monkeypatch.setattr(kind, "_ask", ask)
        return found

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_the_index_finds_what_a_comparison_with_all_finds(self, place, dtype, asked):
        entries, vectors, identity = entries_of(COUNT), vectors_of(COUNT, dtype), identity_of(dtype)
        with open_store(place) as store:
            store.bind(identity)
            store.write(entries, vectors)
        expected = expected_order(entries, vectors, query_of(), identity)
        with open_store(place, read_only=True) as store:
            hits = store.search(query_of(), 10)
        assert asked == [36]
        scores = dict(expected)
        assert all(abs(hit.score - scores[hit.entry.id]) < 1e-5 for hit in hits)
        assert min(hit.score for hit in hits) == pytest.approx(expected[9][1], abs=1e-5)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.entry.id))

    def test_what_was_written_since_and_what_was_deleted_are_minded(self, place, asked):
        entries, vectors = entries_of(COUNT), vectors_of(COUNT)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries[:300], vectors[:300])
        with open_store(place) as store:
            store.write(entries[300:], vectors[300:])
            best = expected_order(entries, vectors, query_of(), identity_of())
            gone = [name for name, _ in best[:8]]
            store.delete(gone)
            hits = store.search(query_of(), 10)
            assert [hit.entry.id for hit in hits] == [name for name, _ in best[8:18]]
        with open_store(place, read_only=True) as store:
            hits = store.search(query_of(), 10)
            assert [hit.entry.id for hit in hits] == [name for name, _ in best[8:18]]
        assert len(asked) == 2

    def test_a_filter_gives_as_many_as_there_are(self, place, asked):
        fill(place, 40)
        with open_store(place, read_only=True) as store:
            hits = store.search(query_of(), 8, where={"year": 2003})
            assert len(hits) == 8
            assert {hit.entry.metadata["year"] for hit in hits} == {2003}
            assert store.search(query_of(), 8, exact=True)[0].score >= hits[0].score
        assert asked == []

    def test_without_an_index_all_are_compared(self, place, tmp_path):
        entries, vectors = entries_of(COUNT), vectors_of(COUNT)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors)
            shutil.copytree(self.path(place), tmp_path / "killed")
        with open_store(f"{self.kind}:{tmp_path / 'killed'}", read_only=True) as store:
            best = expected_order(entries, vectors, query_of(), identity_of())
            hits = store.search(query_of(), 10)
            assert [hit.entry.id for hit in hits] == [name for name, _ in best[:10]]
        open_store(f"{self.kind}:{tmp_path / 'killed'}").close()
        assert tree_of(tmp_path / "killed").keys() == tree_of(self.path(place)).keys()

    def test_a_removed_index_is_built_anew_and_a_damaged_one_named(self, place):
        entries, vectors = entries_of(COUNT), vectors_of(COUNT)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors)
        path = self.path(place) / self.files[0]
        whole = path.read_bytes()
        path.write_bytes(b"no index at all, but somebody's words")
        with open_store(place, read_only=True) as store:
            with pytest.raises(InputError, match="Remove it"):
                store.search(query_of(), 3)
            assert len(store.search(query_of(), 3, exact=True)) == 3
        path.unlink()
        with open_store(place, read_only=True) as store:
            assert len(store.search(query_of(), 3)) == 3
        with open_store(place) as store:
            assert len(store.search(query_of(), 3)) == 3
        assert len(path.read_bytes()) == len(whole)

    def test_all_may_be_deleted(self, place):
        fill(place, 10)
        for again in (False, True):
            with open_store(place) as store:
                store.delete(list(store.ids()))
                assert store.search(query_of(), 3) == []
                store.write(*data(again * 3))
            ids, vectors = self.outside(self.path(place))
            assert len(ids) == len(vectors) == again * 3

    def test_vectors_of_zeros_are_not_near(self, place):
        vectors = vectors_of(COUNT)
        vectors[::2] = 0
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(COUNT), vectors)
        with open_store(place, read_only=True) as store:
            scores = [hit.score for hit in store.search(query_of(), 20)]
        best = sorted(expected_scores(vectors[1::2], query_of(), identity_of()))[::-1]
        np.testing.assert_allclose(scores, best[:20], atol=1e-5)

    def test_a_missing_package_is_named_with_the_line_that_installs_it(self, place, monkeypatch):
        monkeypatch.setitem(sys.modules, self.kind, None)
        with pytest.raises(PackageMissingError, match=rf"pip install 'edgebert\[{self.kind}\]'"):
            open_store(place)

    def test_its_package_is_loaded_when_it_is_used(self):
        code = (
            f"import sys, edgebert.features.stores.{self.kind} as module; "
            f"assert module.{STORES[self.kind]}.kind; assert {self.kind!r} not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
