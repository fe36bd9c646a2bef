"""NumPy: ``vectors.npy``, which ``numpy.load`` opens, and ``entries.jsonl`` in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from edgebert.features.stores.catalog import TEXTS, Part, Position
from edgebert.features.stores.checks import slices
from edgebert.features.stores.pair import Pair
from edgebert.features.stores.segments import SegmentStore


class NpyStore(SegmentStore):
    """Keeps all vectors in one array, and its entries as lines of JSON beside it.

    Closing it rewrites both without what was replaced or deleted, in their old order, if there is
    any. In a folder that wasn't closed, such rows are still in both.
    """

    kind: ClassVar[str] = "npy"
    install: ClassVar[str] = "pip install 'edgebert[features]'"

    def _stage(self, place: Path) -> bool:
        log = self._catalog.parts()[0]
        if log.live == log.rows or self._identity is None:
            return False
        new = Pair.create(place, self._identity)
        try:
            for page in self._catalog.pages(0):
                for some in slices(page, TEXTS):
                    first = new.rows
                    lines = self._log.lines([position.place for position in some])
                    places = enumerate(new.append(lines, self._vectors(some)))
                    ids = [position.id for position in some]
                    self._catalog.move(
                        some, [Position(ids[at], 0, first + at, place) for at, place in places]
                    )
            new.settle(new.rows, new.size)
        finally:
            new.close()
        self._catalog.set_part(0, Part(new.rows, new.rows, new.size))
        return True
