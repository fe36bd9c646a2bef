"""LanceDB keeps the contract of stores, and what is its own."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from edgebert.errors import InputError, StoreError
from edgebert.features.stores import lancedb as module
from edgebert.features.stores import open_store
from edgebert.features.stores.lance_engine import reason_of
from tests.features.store_contract import StoreContract
from tests.features.store_data import entries_of, expected_order, identity_of, vectors_of

pytestmark = pytest.mark.stores


class TestLanceStore(StoreContract):
    kind = "lancedb"


@pytest.fixture
def place(tmp_path):
    return f"lancedb:{tmp_path / 'store'}"


@pytest.mark.parametrize("dtype", ["float32", "float16", "binary"])
def test_an_index_finds_the_best_with_its_exact_score(place, dtype):
    entries, vectors, identity = entries_of(600), vectors_of(600, dtype), identity_of(dtype)
    with open_store(place) as store:
        store.bind(identity)
        store.write(entries, vectors)
        store.build_index()
        store.write(entries_of(1, first=600), vectors_of(1, dtype, seed=9))  # not in the index yet
        assert store._has_index()
        queries = np.random.default_rng(3).standard_normal((20, identity.dim)).astype(np.float32)
        everything = [*entries, *entries_of(1, first=600)]
        rows = np.concatenate([vectors, vectors_of(1, dtype, seed=9)])
        same = 0
        for query in queries:
            expected = expected_order(everything, rows, query, identity)
            hit = store.search(query, 3)[0]
            assert hit.score == pytest.approx(dict(expected)[hit.entry.id], abs=1e-6)
            same += hit.score == pytest.approx(expected[0][1], abs=1e-6)
        assert same >= 15  # LanceDB trains its index from no seed: 17 to 20 were seen
        late = np.asarray(rows[-1], np.float32)
        if dtype != "binary":
            assert store.search(late, 1)[0].entry == everything[-1]
        found = store.search(queries[0], 5, where={"lang": "de"})
        assert {hit.entry.metadata["lang"] for hit in found} == {"de"}
        assert len(found) == 5


def test_int8_is_not_indexed(place):
    with open_store(place) as store:
        store.bind(identity_of("int8"))
        with pytest.raises(InputError, match="int8"):
            store.build_index()


def test_many_small_writes_become_few_files(place, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_TIDY_WRITES", 8)
    monkeypatch.setattr(module, "_KEEP", timedelta(milliseconds=1))
    with open_store(place) as store:
        store.bind(identity_of())
        for row in range(33):
            store.write(entries_of(3, first=3 * row), vectors_of(3, seed=row))
    data = list((tmp_path / "store" / "entries.lance" / "data").iterdir())
    assert len(data) <= 8
    with open_store(place) as store:
        assert list(store.ids()) == sorted(entry.id for entry in entries_of(99))


def test_ids_of_several_pages_rise(place, monkeypatch):
    monkeypatch.setattr(module, "_PAGE", 7)
    with open_store(place) as store:
        store.bind(identity_of())
        for count, first in ((20, 0), (22, 20)):
            store.write(entries_of(count, first=first), vectors_of(count))
        assert list(store.ids()) == sorted(entry.id for entry in entries_of(42))


def test_lancedb_reads_the_table_by_itself(place, tmp_path):
    import lancedb

    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries_of(2), vectors_of(2))
    rows = lancedb.connect(tmp_path / "store").open_table("entries").to_arrow().to_pylist()
    assert {row["key"]: row["text"] for row in rows} == {
        entry.key: entry.text for entry in entries_of(2)
    }


def test_a_folder_of_lancedb_that_is_not_ours_is_refused(place, tmp_path):
    import lancedb

    lancedb.connect(tmp_path / "store").create_table("entries", [{"a": 1}])
    with pytest.raises(InputError, match="edgebert"):
        open_store(place)


def test_what_a_first_bind_left_when_it_was_killed_is_an_empty_store(place, tmp_path):
    (tmp_path / "store" / "entries.lance" / "data").mkdir(parents=True)
    (tmp_path / "store" / "entries.lance" / "data" / "half.lance").write_bytes(b"LA")
    with open_store(place) as store:
        assert store.identity is None
        store.bind(identity_of())
        store.write(entries_of(3), vectors_of(3))
        assert len(store) == 3


def test_a_damaged_table_is_an_error_of_ours(place, tmp_path):
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries_of(30), vectors_of(30))
    for path in (tmp_path / "store" / "entries.lance" / "data").iterdir():
        path.write_bytes(b"not a table")
    with open_store(place) as store, pytest.raises(StoreError, match="can't be read") as raised:
        store.get([entries_of(1)[0].id])
    assert ".rs:" not in str(raised.value)


def test_an_error_does_not_name_the_source_files_of_lancedb_s_builder():
    error = RuntimeError("LanceError(IO): no space,\n /root/.cargo/src/a-1.0/src/file.rs:25:5")
    assert reason_of(error) == "LanceError(IO): no space"


def test_what_a_killed_writer_left_untidied_is_tidied_by_the_next_run(tmp_path):
    place = f"lancedb:{tmp_path / 'store'}"
    killed = open_store(place)
    killed.bind(identity_of())
    for row in range(3):
        killed.write(entries_of(2, first=2 * row), vectors_of(2))
    versions = tmp_path / "store" / "entries.lance" / "_versions"
    assert len(list(versions.glob("*.manifest"))) == 4
    left = versions.parent / "data" / ".tmpAbCdEf"
    left.touch()
    with open_store(place):  # who only looks changes nothing
        pass
    assert len(list(versions.glob("*.manifest"))) == 4
    with open_store(place) as store:
        store.bind(identity_of())
    assert len(list(versions.glob("*.manifest"))) == 1
    assert not left.exists()
