"""Stores that are folders of plain files, which other programs read: what is asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from edgebert.features.entries import Entry, Hit, Scalar, Vectors
from edgebert.features.stores.catalog import TEXTS, Position
from edgebert.features.stores.checks import (
    check_query,
    check_writable,
    check_write,
    in_order,
    no_vectors,
    slices,
)
from edgebert.features.stores.exact import matches, nearest
from edgebert.features.stores.pair import line_of
from edgebert.features.stores.segment_folder import SegmentFolder
from edgebert.features.stores.staging import storing
from edgebert.types import FloatArray


class SegmentStore(SegmentFolder):
    """The protocol of a store over the files of a folder; a kind says what the files are."""

    # What each kind does in its own way

    def _part_vectors(self, part: int, positions: Sequence[Position]) -> Vectors:
        """Give vectors that stand in one file."""
        assert part == 0, f"{self.kind} has no file {part}"
        return self._log.vectors([position.row for position in positions])

    def _part_entries(self, part: int, positions: Sequence[Position]) -> list[Entry]:
        """Give entries that stand in one file."""
        assert part == 0, f"{self.kind} has no file {part}"
        return self._log.entries([position.place for position in positions])

    def _candidates(self, vector: FloatArray, k: int) -> Iterable[list[Position]] | None:
        """Give those among which the nearest are, of which an index says so; None for all."""
        del vector, k
        return None

    # What all do

    def __len__(self) -> int:
        with self._view():
            return 0 if self._identity is None else self._count()

    def _count(self) -> int:
        return sum(part.live for part in self._catalog.parts().values())

    def ids(self) -> Iterator[str]:
        """See `Store.ids`."""
        after = ""
        while True:
            with self._view():
                page = [] if self._identity is None else self._catalog.id_page(after)
            if not page:
                return
            yield from page
            after = page[-1]

    def get(self, ids: Sequence[str]) -> Vectors:
        """See `Store.get`."""
        with self._view():
            return self._vectors(self._positions(ids))

    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """See `Store.entries`."""
        with self._view():
            return self._entries(self._positions(ids))

    def _positions(self, ids: Sequence[str]) -> list[Position]:
        found = {} if self._identity is None else self._catalog.find(ids)
        return in_order(found, ids, place=self._place)

    def _vectors(self, positions: Sequence[Position]) -> Vectors:
        none = no_vectors(self._identity)
        found = np.empty((len(positions), none.shape[1]), none.dtype)
        for part, rows in _by_part(positions).items():
            found[rows] = self._part_vectors(part, [positions[row] for row in rows])
        return found

    def _entries(self, positions: Sequence[Position]) -> list[Entry]:
        found: dict[int, Entry] = {}
        for part, rows in _by_part(positions).items():
            some = self._part_entries(part, [positions[row] for row in rows])
            found.update(zip(rows, some, strict=True))
        return [found[row] for row in range(len(positions))]

    def write(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """See `Store.write`."""
        check_writable(read_only=self._read_only, place=self._place)
        check_write(self._identity, entries, vectors, place=self._place)
        lines = [line_of(entry) for entry in entries]
        with storing(self._place), self.transaction():
            changed = self._changed(entries, lines, vectors)
            if not changed:
                return
            self._catalog.forget([entries[row].id for row in changed])
            log = self._catalog.parts()[0]
            self._log.go_on(log.rows, log.bytes)
            places = self._log.append([lines[row] for row in changed], vectors[changed])
            self._log.sync()
            self._catalog.add(
                [
                    Position(entries[row].id, 0, log.rows + at, place)
                    for at, (row, place) in enumerate(zip(changed, places, strict=True))
                ],
                size=self._log.size,
            )

    def _changed(
        self, entries: Sequence[Entry], lines: Sequence[bytes], vectors: Vectors
    ) -> list[int]:
        """Name the rows of a write that aren't there yet, as they are."""
        there = self._catalog.find([entry.id for entry in entries])
        known = [row for row, entry in enumerate(entries) if entry.id in there]
        same = set()
        for rows in slices(known, TEXTS):
            positions = [there[entries[row].id] for row in rows]
            old = zip(rows, self._entries(positions), self._vectors(positions), strict=True)
            same |= {
                row
                for row, entry, vector in old
                if line_of(entry) == lines[row] and vector.tobytes() == vectors[row].tobytes()
            }
        return [row for row in range(len(entries)) if row not in same]

    def delete(self, ids: Sequence[str]) -> None:
        """See `Store.delete`."""
        check_writable(read_only=self._read_only, place=self._place)
        if self._identity is None or not ids:
            return
        with storing(self._place), self.transaction():
            self._catalog.forget(ids)

    def search(
        self,
        vector: FloatArray,
        k: int,
        *,
        where: Mapping[str, Scalar] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """See `Store.search`. With a filter every entry is read, so it has no use for an index."""
        with self._view():
            if self._identity is None:
                return []
            check_query(self._identity, vector, k)
            pages = None if exact or where else self._candidates(vector, k)
            blocks = self._blocks(self._pages() if pages is None else pages, where)
            found = nearest(blocks, vector, k, self._identity)
            entries = self._entries(self._positions([name for name, _ in found]))
        return [
            Hit(entry=entry, score=score) for entry, (_, score) in zip(entries, found, strict=True)
        ]

    def _pages(self) -> Iterator[list[Position]]:
        for part in self._catalog.parts():
            yield from self._catalog.pages(part)

    def _blocks(
        self, pages: Iterable[list[Position]], where: Mapping[str, Scalar] | None
    ) -> Iterator[tuple[list[str], Vectors]]:
        for page in pages:
            asked = page
            if where:
                asked = []
                for some in slices(page, TEXTS):
                    entries = zip(some, self._entries(some), strict=True)
                    asked += [position for position, entry in entries if matches(entry, where)]
            yield [position.id for position in asked], self._vectors(asked)


def _by_part(positions: Sequence[Position]) -> dict[int, list[int]]:
    """Group places in a list by the file that they point to."""
    groups: dict[int, list[int]] = {}
    for row, position in enumerate(positions):
        groups.setdefault(position.part, []).append(row)
    return groups
