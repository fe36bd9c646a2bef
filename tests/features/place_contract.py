"""Where a store may stand, and who may write to it; part of `tests.features.store_contract`."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from edgebert.errors import EdgeBertError, InputError
from edgebert.features.stores import open_store
from tests.features.store_data import batch, entries_of, identity_of, vectors_of

ROOT = Path(__file__).parents[2]


class PlaceContract:
    kind: str

    @pytest.fixture
    def place(self, tmp_path):
        """Give a URI at which there is nothing, not even the folder around it."""
        return f"{self.kind}:{tmp_path / 'not yet' / 'store'}"

    def path(self, place):
        """Give the file or folder of a place; None of a server's."""
        return Path(place.partition(":")[2])

    def test_a_place_to_read_must_be_there(self, place):
        with pytest.raises(InputError):
            open_store(place, read_only=True)
        path = self.path(place)
        assert path is None or not path.parent.exists()

    def test_a_store_to_read_is_not_changed(self, place):
        entries, vectors = entries_of(5), vectors_of(5)
        with open_store(place) as store:
            store.bind(identity_of())
            store.write(entries, vectors)
        with open_store(place, read_only=True) as store:
            for change in (
                lambda: store.write(entries_of(1, first=9), vectors_of(1)),
                lambda: store.delete([entries[0].id]),
                lambda: store.bind(identity_of(pooling="cls")),
            ):
                with pytest.raises(InputError):
                    change()
            store.bind(identity_of())
            assert store.entries([entries[0].id]) == entries[:1]
            assert store.search(vectors[0], 1)[0].entry == entries[0]
            assert len(store) == 5

    @pytest.mark.parametrize("what", ["file", "folder"])
    def test_what_is_not_a_store_is_refused_and_left_as_it_was(self, place, what):
        path = self.path(place)
        diary = path if what == "file" else path / "diary.txt"
        diary.parent.mkdir(parents=True)
        diary.write_text("Dear diary, it's a long story. " * 400, encoding="utf-8")
        before = diary.read_bytes()
        for read_only in (False, True):
            with pytest.raises(InputError, match="store"):
                open_store(place, read_only=read_only)
        assert diary.read_bytes() == before
        assert [one.name for one in path.parent.iterdir()] == [path.name]
        assert what == "file" or [one.name for one in path.iterdir()] == ["diary.txt"]

    def test_it_is_closed_twice(self, place):
        store = open_store(place)
        store.bind(identity_of())
        store.close()
        store.close()

    def test_it_may_go_from_thread_to_thread(self, place):
        with open_store(place) as store:
            store.bind(identity_of())
            other = Thread(target=store.write, args=(entries_of(4), vectors_of(4)))
            other.start()
            other.join()
            assert len(store) == 4
            assert len(store.search(vectors_of(1)[0], 2)) == 2

    def test_two_that_write_lose_nothing(self, place):
        """A store takes a second writer, or refuses it; it never forgets what one wrote."""
        with open_store(place) as first:
            first.bind(identity_of())
            first.write(entries_of(3), vectors_of(3))
            count = 3
            with suppress(EdgeBertError), open_store(place) as second:
                second.bind(identity_of())
                second.write(entries_of(3, first=3), vectors_of(3))
                count = 6
            first.write(entries_of(3, first=count), vectors_of(3))
        with open_store(place) as store:
            assert list(store.ids()) == sorted(entry.id for entry in entries_of(count + 3))

    def test_what_was_written_outlives_kill_9(self, place):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.features.store_child", place],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        try:
            done = [int(child.stdout.readline()) for _ in range(3)]
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        assert done == [0, 1, 2]
        with open_store(place) as store:
            ids = list(store.ids())
            batches = [batch(number) for number in range(len(ids) // 8 + 1)]
            known = {
                entry.id: (entry, vector)
                for entries, vectors in batches
                for entry, vector in zip(entries, vectors, strict=True)
            }
            assert store.entries(ids) == [known[one][0] for one in ids]
            np.testing.assert_array_equal(store.get(ids), [known[one][1] for one in ids])
            assert {entry.id for number in done for entry in batch(number)[0]} <= set(ids)
            for number in range(-(-len(ids) // 8)):
                store.write(*batch(number))
            assert len(store) == -(-len(ids) // 8) * 8
