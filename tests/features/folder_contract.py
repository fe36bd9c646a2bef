"""What stores that are folders of files promise beyond the contract of every store."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from edgebert.errors import InputError, StoreError
from edgebert.features.stores import open_store, staging
from tests.features.killed_folder import states
from tests.features.store_contract import StoreContract
from tests.features.store_data import entries_of, entry_of, identity_of, vectors_of

ROOT = Path(__file__).parents[2]


def tree_of(folder):
    """Give the bytes of every file under a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def data(count, dtype="float32"):
    """Give entries and vectors of which the first are the same for any count up to 40."""
    return entries_of(count), vectors_of(40, dtype)[:count]


def fill(place, count=20, *, dtype="float32"):
    with open_store(place) as store:
        store.bind(identity_of(dtype))
        store.write(*data(count, dtype))


class FolderContract(StoreContract):
    files: tuple[str, ...]  # what stands in the folder

    def outside(self, folder):
        """Give ids and vectors as another program reads them, in the order of the files."""
        raise NotImplementedError

    @pytest.mark.slow
    def test_killed_at_any_step_it_has_all_that_was_done_and_nothing_by_half(
        self, tmp_path, monkeypatch
    ):
        subprocess.run(
            [sys.executable, "-m", "tests.features.killed_folder", f"{self.kind}:{tmp_path}"],
            cwd=ROOT,
            check=True,
        )
        monkeypatch.setattr(os, "fsync", lambda _: None)
        acks = sorted(tmp_path.glob("*.acks"), key=lambda path: int(path.stem))
        assert len(acks) > 40
        expected = states()
        assert acks[-1].stat().st_size == len(expected) - 1
        for path in acks:
            done, folder = path.stat().st_size, tmp_path / path.stem
            allowed = expected[done : done + 2]
            for read_only in (True, False):
                if read_only and not folder.joinpath("_edgebert", "identity.json").exists():
                    continue
                with open_store(f"{self.kind}:{folder}", read_only=read_only) as store:
                    if not read_only:
                        store.bind(identity_of())
                    ids = list(store.ids())
                    vectors = [vector.tobytes() for vector in store.get(ids)]
                    pairs = zip(store.entries(ids), vectors, strict=True)
                    found = dict(zip(ids, pairs, strict=True))
                    assert found in allowed, f"step {path.stem}"
                    assert len(store) == len(found)
            ids, vectors = self.outside(folder)
            assert len(ids) == len(set(ids))
            mine = {name: vector.tobytes() for name, vector in zip(ids, vectors, strict=True)}
            assert mine == {name: vector for name, (_, vector) in found.items()}
            assert {one.name for one in (folder / "_edgebert").iterdir()} <= {
                *("catalog.db", "catalog.db-journal", "lock.db", "identity.json"),
                *("vectors.npy", "entries.jsonl"),
            }

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
    def test_another_program_reads_what_counts_and_nothing_else(self, place, dtype):
        fill(place, dtype=dtype)
        entries, vectors = data(20, dtype)
        with open_store(place) as store:
            store.delete([entry.id for entry in entries[3:9]])
            store.write(entries[12:14], vectors[:2])
        ids, found = self.outside(self.path(place))
        order = [*range(3), 9, 10, 11, *range(14, 20), 12, 13]
        assert ids == [entries[row].id for row in order]
        vectors[12:14] = vectors[:2]
        assert found.dtype == vectors.dtype
        assert found.tobytes() == vectors[order].tobytes()

    def test_no_file_is_left_that_has_no_use(self, place):
        for first in (0, 10):
            with open_store(place) as store:
                store.bind(identity_of())
                store.write(entries_of(10, first=first), vectors_of(10))
                store.delete([entries_of(1, first=first)[0].id])
        assert sorted(one.name for one in self.path(place).iterdir()) == sorted(
            ("_edgebert", *self.files)
        )

    def test_the_same_again_leaves_every_byte_as_it_was(self, place):
        fill(place, 11)
        before = tree_of(self.path(place))
        fill(place, 11)
        after = tree_of(self.path(place))
        for name in before:
            assert name.startswith("_edgebert") or after[name] == before[name]

    def test_reading_changes_no_byte(self, place):
        fill(place)
        before = tree_of(self.path(place))
        with open_store(place, read_only=True) as store:
            store.search(vectors_of(1)[0], 3)
            assert len(list(store.ids())) == 20
        assert tree_of(self.path(place)) == before

    def test_a_folder_that_can_t_be_written_to_is_read(self, place, monkeypatch):
        fill(place)
        monkeypatch.setattr(os, "access", lambda *_: False)
        with open_store(place, read_only=True) as store:
            assert store.search(data(20)[1][3], 1)[0].entry == entries_of(20)[3]

    def test_a_reader_sees_what_a_writer_does_meanwhile(self, place):
        fill(place)
        entries, vectors = data(30)
        with open_store(place, read_only=True) as reader:
            assert reader.search(vectors[5], 1, exact=True)[0].entry == entries[5]
            with open_store(place) as writer:
                writer.write(entries[20:], vectors[20:])
                assert len(reader) == 30
                writer.delete([entry.id for entry in entries[:5]])
                assert reader.search(vectors[25], 1)[0].entry == entries[25]
            assert len(reader) == 25  # and all files are others
            rest = [entry.id for entry in entries[5:]]
            np.testing.assert_array_equal(reader.get(rest), vectors[5:])
            assert reader.entries(rest) == entries[5:]

    def test_a_second_writer_is_refused_until_the_first_is_gone(self, place):
        with open_store(place) as first:
            first.bind(identity_of())
            with pytest.raises(StoreError, match="open"):
                open_store(place)
        open_store(place).close()

    def test_a_transaction_is_all_or_nothing_with_what_its_database_holds(self, place):
        fill(place, 5)
        entries, vectors = data(9)
        with open_store(place) as store:
            store.sql().execute("CREATE TABLE journal (name TEXT)")
            with suppress(ZeroDivisionError), store.transaction():
                store.write(entries[5:], vectors[5:])
                store.delete([entries[0].id])
                store.sql().execute_many("INSERT INTO journal VALUES (?)", [("a",), ("b",)])
                assert len(store) == 8
                assert store.entries([entries[8].id]) == entries[8:]
                raise ZeroDivisionError
            assert len(store) == 5
            assert store.sql().execute("SELECT * FROM journal") == []
            with store.transaction():
                store.write(entries[5:7], vectors[5:7])
                store.write(entries[7:], vectors[7:])
                store.sql().execute("INSERT INTO journal VALUES (?)", ["c"])
        with open_store(place) as store:
            assert store.sql().execute("SELECT * FROM journal") == [("c",)]
            assert store.journal_path() is None
            np.testing.assert_array_equal(store.get([one.id for one in entries]), vectors)

    def test_a_full_disk_is_an_error_that_changes_nothing(self, place, monkeypatch):
        fill(place, 5)
        entries, vectors = data(9)

        def full(_):
            raise OSError(28, "No space left on device")

        with open_store(place) as store:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", full)
                with pytest.raises(StoreError, match="No space left"):
                    store.write(entries[5:], vectors[5:])
            assert len(store) == 5
            store.write(entries[5:], vectors[5:])
            store.delete([entries[0].id])
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", full)
                with pytest.raises(StoreError, match="No space left"):
                    store.close()
        with open_store(place) as store:
            np.testing.assert_array_equal(store.get([one.id for one in entries[1:]]), vectors[1:])

    @pytest.mark.parametrize("step", ["begin", "sync", "take_places", "sync_directory"])
    def test_an_interrupt_while_files_change_loses_nothing(self, place, monkeypatch, step):
        fill(place, 11)
        entries, vectors = data(20)
        original, calls = getattr(staging, step), []

        def interrupted(*values):
            calls.append(values)
            if len(calls) == (2 if step == "take_places" else 1):
                raise KeyboardInterrupt
            return original(*values)

        with open_store(place) as store:
            store.write(entries[11:14], vectors[11:14])
            store.delete([entries[3].id])
            monkeypatch.setattr(staging, step, interrupted)
            with suppress(KeyboardInterrupt):
                store._publish()
            assert calls
            monkeypatch.setattr(staging, step, original)
            store.write(entries[14:], vectors[14:])  # and the same one goes on
            assert len(store) == 19
        with open_store(place, read_only=True) as store:
            rest = [*entries[:3], *entries[4:]]
            np.testing.assert_array_equal(
                store.get([entry.id for entry in rest]), np.delete(vectors, 3, axis=0)
            )
            assert store.entries([entry.id for entry in rest]) == rest
        assert len(self.outside(self.path(place))[0]) == 19

    def test_a_store_of_another_kind_is_refused_by_its_name(self, place):
        fill(place)
        other = "npy" if self.kind != "npy" else "parquet"
        with pytest.raises(InputError, match=f"{self.kind}:"):
            open_store(f"{other}:{self.path(place)}")

    def test_half_a_character_is_refused_before_anything_is_written(self, place):
        with open_store(place) as store:
            store.bind(identity_of())
            with pytest.raises(InputError, match="surrogate"):
                store.write([*entries_of(1), entry_of("bad", text="a\ud800")], vectors_of(2))
            assert len(store) == 0

    @pytest.mark.parametrize("name", ["catalog.db", "vectors.npy"])
    def test_a_damaged_file_is_named(self, place, name):
        folder = self.path(place)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(*data(11))
            paths = list(folder.rglob(name))
            assert len(paths) == 1
            copy = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        damaged = folder.with_name("damaged")
        for path, content in copy.items():
            new = damaged / path.relative_to(folder)
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(content[:300] if path == paths[0] else content)
        for read_only in (True, False):
            with pytest.raises(InputError, match="damaged"):
                open_store(f"{self.kind}:{damaged}", read_only=read_only)
