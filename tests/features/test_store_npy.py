"""Folders of ``.npy`` and JSONL: the contract, and what NumPy makes of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.features.stores import open_store
from edgebert.features.stores.pair import header
from tests.features.folder_contract import FolderContract, data, fill
from tests.features.store_data import entries_of, identity_of, vectors_of


class TestNpy(FolderContract):
    kind = "npy"
    files = ("vectors.npy", "entries.jsonl")

    def outside(self, folder):
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        lines = (folder / "entries.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["id"] for line in lines], vectors


@pytest.fixture
def place(tmp_path):
    return f"npy:{tmp_path / 'store'}"


def test_numpy_opens_the_vectors_while_they_are_written(place, tmp_path):
    with open_store(place) as store:
        store.bind(identity_of())
        for first in (0, 7):
            store.write(entries_of(7, first=first), vectors_of(7, seed=first))
            found = np.load(tmp_path / "store" / "vectors.npy", mmap_mode="r")
            assert found.shape == (first + 7, 16)
            np.testing.assert_array_equal(found[first:], vectors_of(7, seed=first))


def test_a_line_has_all_of_its_entry(place, tmp_path):
    fill(place, 3)
    line = (tmp_path / "store" / "entries.jsonl").read_text(encoding="utf-8").splitlines()[2]
    entry = entries_of(3)[2]
    assert json.loads(line) == {
        "id": entry.id,
        "key": "row-2",
        "chunk": 2,
        "start": 5,
        "end": entry.end,
        "text": "text of row-2",
        "metadata": {"lang": "it's", "year": 2002, "share": 0.25, "good": True, "note": None},
    }


@pytest.mark.parametrize("rows", [0, 1, 10**18])
def test_a_header_says_its_shape_and_never_grows(rows, tmp_path):
    data = header(np.dtype(np.float16), rows, 384)
    assert len(data) == 128
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with path.open("rb") as stream:
        assert np.lib.format.read_magic(stream) == (1, 0)
        facts = np.lib.format.read_array_header_1_0(stream)
    assert facts == ((rows, 384), False, np.dtype("<f2"))


def test_its_identity_stands_in_the_folder(place, tmp_path):
    fill(place, 2, dtype="int8")
    facts = json.loads((tmp_path / "store" / "_edgebert" / "identity.json").read_text("utf-8"))
    assert facts["int8_scale"] == list(identity_of("int8").int8_scale)


def test_what_came_after_the_last_commit_is_cut_off(place, tmp_path):
    fill(place, 4)
    for name in ("vectors.npy", "entries.jsonl"):
        with (tmp_path / "store" / name).open("ab") as stream:
            stream.write(b"half a row")
    with open_store(place, read_only=True) as store:
        np.testing.assert_array_equal(store.get([entry.id for entry in entries_of(4)]), data(4)[1])
    open_store(place).close()
    assert (tmp_path / "store" / "vectors.npy").stat().st_size == 128 + 4 * 16 * 4
    assert (tmp_path / "store" / "entries.jsonl").read_bytes().endswith(b"}\n")


def test_a_folder_without_its_catalog_is_refused(place, tmp_path):
    fill(place, 4)
    (tmp_path / "store" / "_edgebert" / "catalog.db").unlink()
    with pytest.raises(InputError, match="no store"):
        open_store(place)
