"""DuckDB: the contract of every store, and what is its own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from edgebert.errors import InputError, PackageMissingError, StoreError
from edgebert.features.stores import open_store
from edgebert.features.switching import new_place, switch
from tests.features.search_contract import query_of
from tests.features.store_data import entries_of, identity_of, vectors_of
from tests.features.table_contract import TableContract

pytestmark = pytest.mark.stores
duckdb = pytest.importorskip("duckdb")


class TestDuckDb(TableContract):
    kind = "duckdb"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_its_own_cosine_finds_what_an_exact_search_finds(tmp_path, dtype):
    with open_store(f"duckdb:{tmp_path / 'store'}") as store:
        store.bind(identity_of(dtype))
        store.write(entries_of(500), vectors_of(500, dtype))
        store.write(entries_of(1), vectors_of(1, dtype) * 0)
        assert store._indexed(query_of(), 5, {}, exact=False) is not None
        for seed in range(5):
            quick = store.search(query_of(seed), 20)
            assert quick == store.search(query_of(seed), 20, exact=True)


def test_another_program_can_ask_for_vectors_in_sql(tmp_path):
    with open_store(f"duckdb:{tmp_path / 'store'}") as store:
        store.bind(identity_of())
        store.write(entries_of(5), vectors_of(5))
    with duckdb.connect(str(tmp_path / "store"), read_only=True) as other:
        found = other.execute(
            "SELECT list_sum(vector::FLOAT[]) FROM entries ORDER BY id"
        ).fetchall()
    rows = sorted(range(5), key=lambda row: entries_of(5)[row].id)
    np.testing.assert_allclose(np.ravel(found), vectors_of(5)[rows].sum(axis=1), rtol=1e-4)


def test_a_file_that_another_process_writes_to_is_not_opened(tmp_path):
    place = f"duckdb:{tmp_path / 'store'}"
    command = [sys.executable, "-m", "tests.features.store_child", place]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"0\n"
            with pytest.raises(StoreError, match="lock"):
                open_store(place)
        finally:
            child.kill()


@pytest.mark.parametrize("log", [True, False])
def test_a_new_store_takes_the_place_of_none_that_another_process_writes_to(tmp_path, log):
    """Its log would be taken for the new store's, which could then not be opened."""
    uri = f"duckdb:{tmp_path / 'store'}"
    place, new = new_place(uri)
    with open_store(new) as store:
        store.bind(identity_of())
        store.write(entries_of(3), vectors_of(3))
    command = [sys.executable, "-m", "tests.features.store_child", uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"0\n"
            if not log:
                (tmp_path / "store.wal").unlink(missing_ok=True)
            with pytest.raises(InputError, match="open in another process"):
                switch(place, uri)
        finally:
            child.kill()
    switch(place, uri)
    with open_store(uri) as store:
        assert len(store) == 3


def test_the_database_of_another_program_is_refused(tmp_path):
    with duckdb.connect(str(tmp_path / "other")) as other:
        other.execute("CREATE TABLE entries (id TEXT)")
    before = (tmp_path / "other").read_bytes()
    for read_only in (False, True):
        with pytest.raises(InputError, match="other"):
            open_store(f"duckdb:{tmp_path / 'other'}", read_only=read_only)
    assert (tmp_path / "other").read_bytes() == before


def test_without_its_package_the_message_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(PackageMissingError, match=r"pip install 'edgebert\[duckdb\]'"):
        open_store(f"duckdb:{tmp_path / 'store'}")
