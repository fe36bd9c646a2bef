"""A store that is a folder, killed at steps that change the disk: ``python -m … URI``.

Each run is a forked process whose n-th step ends it, half done where a step can be, without a
handler, a flush or a close: what kill -9 leaves. Its folder is ``URI/n``, and ``URI/n.acks`` has a
byte for each call that had returned. The last one comes to its end.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from edgebert.features.stores import open_store
from edgebert.features.stores.catalog import Catalog
from edgebert.features.stores.pair import Pair
from edgebert.features.stores.parquet import ParquetStore
from tests.features.store_data import entries_of, identity_of, vectors_of

PART_ROWS = 12  # so that few entries make several files
STRIDE = 3  # of some 150 steps; what a kind of step comes to is seen often enough


def write(first, count, seed):
    """Give an operation, and what it does to a dictionary of vectors by id."""
    entries, vectors = entries_of(count, first=first), vectors_of(count, seed=seed)

    def change(state):
        pairs = zip(entries, vectors, strict=True)
        return {**state, **{entry.id: (entry, vector.tobytes()) for entry, vector in pairs}}

    return lambda store: store.write(entries, vectors), change


def delete(first, count):
    gone = {entry.id for entry in entries_of(count, first=first)}

    def change(state):
        return {name: value for name, value in state.items() if name not in gone}

    return lambda store: store.delete(sorted(gone)), change


def together(*operations):
    def run(store):
        with store.transaction():
            for operation, _ in operations:
                operation(store)

    def change(state):
        for _, one in operations:
            state = one(state)
        return state

    return run, change


SESSIONS = (
    (write(0, 8, seed=0), write(8, 8, seed=1), together(write(16, 4, seed=2), delete(2, 2))),
    (write(4, 6, seed=3), delete(12, 3), write(20, 3, seed=4)),
    (write(23, 2, seed=5),),
    (delete(0, 25), write(30, 2, seed=6)),
)


def states():
    """Give what a store holds after each operation, nothing first."""
    found = [{}]
    for session in SESSIONS:
        for _, change in session:
            found.append(change(found[-1]))
    return found


def run(place, acks):
    for session in SESSIONS:
        with open_store(place) as store:
            store.bind(identity_of())
            for operation, _ in session:
                operation(store)
                os.write(acks, b".")


class Killer:
    """Ends the process at its n-th step."""

    def __init__(self, last):
        self.left = last

    def step(self, half=None):
        self.left -= 1
        if self.left == 0:
            if half is not None:
                half()
            os._exit(9)

    def around(self, owner, name, *, after=False):
        original = getattr(owner, name)

        def patched(*values, **named):
            self.step()
            result = original(*values, **named)
            if after:
                self.step()
            return result

        setattr(owner, name, patched)

    def install(self):
        put, execute = Pair._put, Catalog.execute

        def half_put(stream, at, data):
            self.step(lambda: put(stream, at, data[: len(data) // 2]))
            put(stream, at, data)

        def commit(catalog, statement, values=()):
            if statement == "PRAGMA synchronous = FULL":
                statement = "PRAGMA synchronous = OFF"  # the kernel outlives a kill
            if statement == "COMMIT":
                self.step()
            result = execute(catalog, statement, values)
            if statement == "COMMIT":
                self.step()
            return result

        Pair._put, Catalog.execute = staticmethod(half_put), commit
        os.fsync = lambda _: None
        for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "mkdir")):
            self.around(owner, name)
        self.around(Path, "write_bytes", after=True)
        self.around(shutil, "rmtree")


def main(uri):
    kind, _, base = uri.partition(":")
    ParquetStore.part_rows = PART_ROWS
    if kind == "parquet":
        import edgebert.features.stores.parquet_files  # noqa: F401 (before the fork)
    status, last = 1, 0
    while status:
        last += STRIDE
        acks = os.open(f"{base}/{last}.acks", os.O_CREAT | os.O_WRONLY)
        child = os.fork()
        if child == 0:
            Killer(last).install()
            run(f"{kind}:{base}/{last}", acks)
            os._exit(0)
        os.close(acks)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9), status


if __name__ == "__main__":
    main(sys.argv[1])
