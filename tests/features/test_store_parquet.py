"""Folders of Parquet: the contract, and what pyarrow, pandas and DuckDB make of them."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from edgebert.errors import InputError, PackageMissingError
from edgebert.features.entries import Identity
from edgebert.features.stores import open_store
from edgebert.features.stores.parquet import ParquetStore
from edgebert.features.stores.parquet_files import IDENTITY
from tests.features.folder_contract import FolderContract, data, fill
from tests.features.killed_folder import PART_ROWS
from tests.features.store_data import DTYPES, entries_of, entry_of, identity_of, vectors_of


def read(folder):
    return pyarrow.dataset.dataset(folder, format="parquet").to_table()


class TestParquet(FolderContract):
    kind = "parquet"
    files = ("part-00001.parquet",)

    def outside(self, folder):
        table = read(folder) if list(folder.glob("*.parquet")) else pa.table({"id": []})
        if not table.num_rows:
            return [], []
        vectors = table["vector"].combine_chunks()
        return table["id"].to_pylist(), vectors.flatten().to_numpy().reshape(table.num_rows, -1)


@pytest.mark.slow
class TestParquetOfManyFiles(TestParquet):
    """The same with a file for every few entries."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(ParquetStore, "part_rows", PART_ROWS)

    files = ("part-00001.parquet", "part-00002.parquet")

    test_killed_at_any_step_it_has_all_that_was_done_and_nothing_by_half = None


@pytest.fixture
def place(tmp_path):
    return f"parquet:{tmp_path / 'store'}"


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(ParquetStore, "part_rows", 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_are_those_of_an_entry_with_its_vector(place, tmp_path, dtype):
    fill(place, 3, dtype=dtype)
    schema = read(tmp_path / "store").schema
    assert schema.names == ["id", "key", "chunk", "start", "end", "text", "metadata", "vector"]
    number = {"float32": "float", "float16": "halffloat", "int8": "int8", "binary": "uint8"}[dtype]
    kind = schema.field("vector").type
    assert (str(kind.value_type), kind.list_size) == (number, 2 if dtype == "binary" else 16)
    assert Identity.from_json(schema.metadata[IDENTITY].decode()) == identity_of(dtype)


def test_pandas_and_duckdb_read_rows(place, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    fill(place, 5)
    frame = pandas.read_parquet(tmp_path / "store")
    assert frame["text"].tolist() == [entry.text for entry in entries_of(5)]
    np.testing.assert_array_equal(np.stack(frame["vector"]), data(5)[1])
    query = (
        "SELECT id, list_cosine_similarity(vector, ?::FLOAT[]) AS score "
        f"FROM '{tmp_path / 'store'}/*.parquet' WHERE metadata->>'lang' = 'en' ORDER BY score DESC"
    )
    rows = duckdb.connect().execute(query, [data(5)[1][4].tolist()]).fetchall()
    assert rows[0][0] == entries_of(5)[4].id
    assert rows[0][1] == pytest.approx(1)
    assert len(rows) == 2


def test_metadata_is_json(place, tmp_path):
    fill(place, 2)
    column = read(tmp_path / "store")["metadata"].to_pylist()
    assert [json.loads(one) for one in column] == [dict(one.metadata) for one in entries_of(2)]


@pytest.mark.usefixtures("small_parts")
def test_others_see_no_entry_in_two_forms_when_its_writer_is_killed(place, tmp_path):
    fill(place, 12)
    before = read(tmp_path / "store")
    copy = tmp_path / "killed"
    with open_store(place) as store:
        store.write(entries_of(4), vectors_of(4, seed=1))
        store.delete([entries_of(9)[8].id])
        store.write(entries_of(30, first=20), vectors_of(30))
        shutil.copytree(tmp_path / "store", copy)
    assert read(copy).equals(before)
    assert read(tmp_path / "store").num_rows == 11 + 30


@pytest.mark.usefixtures("small_parts")
def test_a_long_run_shows_its_files_before_its_end(place, tmp_path):
    with open_store(place) as store:
        store.bind(identity_of())
        for first in range(0, 35, 5):
            store.write(entries_of(5, first=first), vectors_of(5, seed=first))
        assert read(tmp_path / "store").num_rows == 30
        assert len(store) == 35
    assert sorted(path.name for path in (tmp_path / "store").glob("*.parquet")) == [
        f"part-0000{number}.parquet" for number in (1, 2, 3, 4)
    ]


@pytest.mark.usefixtures("small_parts")
def test_small_runs_fill_one_file(place, tmp_path):
    for first in range(0, 20, 4):
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(4, first=first), vectors_of(4))
    sizes = [
        pyarrow.parquet.read_metadata(path).num_rows
        for path in sorted((tmp_path / "store").glob("*.parquet"))
    ]
    assert sizes == [8, 8, 4]


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_nothing_was_taken_from_is_not_written_again(place, tmp_path):
    for first in (0, 10, 20):
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries_of(10, first=first), vectors_of(10))
    files = sorted((tmp_path / "store").glob("*.parquet"))
    before = [path.stat().st_ino for path in files]
    with open_store(place) as store:
        store.delete([entries_of(1, first=13)[0].id])
    after = [path.stat().st_ino for path in files]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]
    with open_store(place) as store:
        store.delete([entry.id for entry in entries_of(10, first=10)])
    assert [path.exists() for path in files] == [True, False, True]


def test_a_file_of_somebody_else_is_left_alone(place, tmp_path):
    fill(place, 3)
    other = tmp_path / "store" / "mine.parquet"
    other.write_bytes(b"PAR1")
    with open_store(place) as store:
        store.delete([entries_of(1)[0].id])
    assert other.read_bytes() == b"PAR1"


def test_pages_of_many_rows_are_read_in_any_order(place):
    count = 9000  # more than two row groups
    entries, vectors = entries_of(count), vectors_of(count)
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries, vectors)
    with open_store(place) as store:
        store.delete([entry.id for entry in entries[100:200]])
    rows = [8999, 0, 4095, 4096, 99, 200, 5000]
    with open_store(place, read_only=True) as store:
        np.testing.assert_array_equal(store.get([entries[row].id for row in rows]), vectors[rows])
        assert store.entries([entries[row].id for row in rows]) == [entries[row] for row in rows]
        assert store.search(vectors[8999], 1)[0].entry == entries[8999]


def test_long_texts_make_small_row_groups(place, tmp_path, monkeypatch):
    monkeypatch.setattr("edgebert.features.stores.parquet._GROUP_CHARACTERS", 5000)
    entries = [entry_of(f"r{row}", text=f"{row} " + "x" * 100) for row in range(600)]
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries, vectors_of(600))
    with open_store(place) as store:
        store.delete([entries[3].id])
        assert store.entries([entries[599].id, entries[300].id]) == [entries[599], entries[300]]
    metadata = pyarrow.parquet.read_metadata(tmp_path / "store" / "part-00001.parquet")
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert groups == [256, 256, 87]
    with open_store(place, read_only=True) as store:
        rest = [entry.id for entry in [*entries[:3], *entries[4:]]]
        np.testing.assert_array_equal(store.get(rest), np.delete(vectors_of(600), 3, axis=0))


@pytest.mark.parametrize("left", [b"PAR1", None])
def test_a_damaged_or_missing_file_is_told(place, tmp_path, left):
    with open_store(place) as store:
        store.bind(identity_of())
        store.write(entries_of(3), vectors_of(3))
    path = tmp_path / "store" / "part-00001.parquet"
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    said = r"part-00001\.parquet is damaged \(.*\)\. Restore the folder"
    with open_store(place, read_only=True) as store, pytest.raises(InputError, match=said):
        store.get([entries_of(1)[0].id])


def test_a_missing_package_is_named_with_the_line_that_installs_it(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PackageMissingError, match=r"pip install 'edgebert\[features\]'"):
        open_store(place)
