"""A store without transactions, whose every step can fail: the journal has to do it in steps."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from edgebert.features.stores.base import Store
from edgebert.features.stores.checks import check_write, in_order
from edgebert.features.stores.exact import matches, nearest


class PowerCut(BaseException):
    """Ends a run at once, as a kill does: nobody catches it."""


class MemoryStore(Store):
    """Keeps everything in this process under its location; its journal is a file there.

    Attributes:
        places: What each location holds: entries with their vectors, and the identity.
        calls: Names of all steps so far.
        fail: Called with the name and the number of a step before it's done; may raise.
    """

    kind = "memory"
    install = ""
    places: ClassVar[dict] = {}
    calls: ClassVar[list] = []
    fail = staticmethod(lambda name, number: None)  # noqa: ARG005

    def __init__(self, location):
        self.location = Path(location)
        self._held = self.places.setdefault(str(location), {"entries": {}, "identity": None})

    @classmethod
    def open(cls, location, *, read_only=False):  # noqa: ARG003
        return cls(location)

    @classmethod
    def step(cls, name):
        cls.calls.append(name)
        cls.fail(name, len(cls.calls))

    @property
    def identity(self):
        return self._held["identity"]

    def bind(self, identity):
        self.location.mkdir(parents=True, exist_ok=True)
        self._held["identity"] = self._held["identity"] or identity
        self._held["identity"].require(identity, place=str(self.location))

    def __len__(self):
        return len(self._held["entries"])

    def ids(self):
        return iter(sorted(self._held["entries"]))

    def get(self, ids):
        found = {name: vector for name, (_, vector) in self._held["entries"].items()}
        return np.array(in_order(found, ids, place="memory"))

    def entries(self, ids):
        found = {name: entry for name, (entry, _) in self._held["entries"].items()}
        return in_order(found, ids, place="memory")

    def write(self, entries, vectors):
        check_write(self.identity, entries, vectors, place="memory")
        self.step("write")
        for number, (entry, vector) in enumerate(zip(entries, vectors, strict=True)):
            if number == 1:
                self.step("in the middle of write")
            self._held["entries"][entry.id] = entry, vector.copy()
        self.step("write done")

    def delete(self, ids):
        self.step("delete")
        for number, name in enumerate(ids):
            if number == 1:
                self.step("in the middle of delete")
            self._held["entries"].pop(name, None)
        self.step("delete done")

    def search(self, vector, k, *, where=None, exact=False):  # noqa: ARG002
        names = [n for n, (entry, _) in self._held["entries"].items() if matches(entry, where)]
        return nearest([(names, self.get(names))], vector, k, self.identity)

    def journal_path(self):
        return self.location / "journal.sqlite"

    def close(self):
        pass


def held(store):
    """Give all that a store holds: ids, entries and the bytes of the vectors."""
    ids = list(store.ids())
    return [
        (entry, vector.tobytes())
        for entry, vector in zip(store.entries(ids), store.get(ids) if ids else [], strict=True)
    ]
