"""Parquet: files that pyarrow, pandas, DuckDB and Polars read, with every entry once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from edgebert.features.entries import Entry, Vectors
from edgebert.features.stores import staging
from edgebert.features.stores.catalog import PAGE, TEXTS, Part, Position
from edgebert.features.stores.checks import slices
from edgebert.features.stores.pair import Pair
from edgebert.features.stores.segments import SegmentStore
from edgebert.features.stores.staging import INNER

_PART = re.compile(r"part-(\d{5,})\.parquet")
_OPEN = 16  # files at a time
_GROUP_CHARACTERS = 1 << 24


class ParquetStore(SegmentStore):
    """Keeps ``part-00001.parquet`` and so on, of some `part_rows` each.

    What is written waits in a log, which others don't see, until there is enough for a file or the
    store is closed. Then files that have rows that were replaced or deleted are written anew, each
    in its own place. So other programs see what was there when it was closed, while it's open and
    after a kill too, and no entry in two forms, but for the moment in which files are moved.
    """

    kind: ClassVar[str] = "parquet"
    install: ClassVar[str] = "pip install 'edgebert[features]'"
    needs: ClassVar[str | None] = "pyarrow"
    log_folder: ClassVar[str] = INNER
    part_rows: ClassVar[int] = 16 * PAGE

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        super().__init__(folder, read_only=read_only)
        self._files: dict[int, Any] = {}

    def _file(self, part: int) -> Any:
        if part not in self._files:
            if len(self._files) >= _OPEN:
                self._close_files()
            path = staging.path_now(self._folder, self._generation, _name(part))
            library: Any = import_module("edgebert.features.stores.parquet_files")
            self._files[part] = library.ParquetFile(path, self._identity)
        return self._files[part]

    def _part_vectors(self, part: int, positions: Sequence[Position]) -> Vectors:
        if part == 0:
            return super()._part_vectors(part, positions)
        vectors: Vectors = self._file(part).vectors([position.row for position in positions])
        return vectors

    def _part_entries(self, part: int, positions: Sequence[Position]) -> list[Entry]:
        if part == 0:
            return super()._part_entries(part, positions)
        entries: list[Entry] = self._file(part).entries([position.row for position in positions])
        return entries

    def _after_commit(self) -> None:
        """Write a file of the log, unless others would then see an entry in two forms."""
        log, *files = self._catalog.parts().values() if self._identity else [Part(0, 0, 0)]
        if log.live >= self.part_rows and all(part.live == part.rows for part in files):
            self._publish()

    def _stage(self, place: Path) -> bool:
        parts = self._catalog.parts()
        log = parts.pop(0)
        gaps = [number for number, part in parts.items() if part.live < part.rows]
        if not log.rows and not gaps:
            return False
        last = max(parts, default=0)
        joined = last and log.live and parts[last].live + log.live <= self.part_rows
        for number in gaps:
            if not joined or number != last:
                self._pack(place, number, self._catalog.pages(number))
        if joined:  # a small file and the log become one
            pages = chain(self._catalog.pages(last), self._catalog.pages(0))
            self._pack(place, last, pages)
        elif log.live:
            self._pack(place, max(self._catalog.parts()) + 1, self._catalog.pages(0))
        if self._identity is not None:
            Pair.create(place / INNER, self._identity).close()
        self._catalog.set_part(0, Part(0, 0, 0))
        return True

    def _pack(self, place: Path, number: int, pages: Iterator[list[Position]]) -> None:
        """Write entries to a file, and to further ones when it's full."""
        library: Any = import_module("edgebert.features.stores.parquet_files")
        schema = library.schema_of(self._identity)
        page = next(pages, None)
        if page is None:
            self._catalog.drop_part(number)
        while page is not None:
            rows = 0
            with library.writer(place / _name(number), schema) as writer:
                while page is not None and rows < self.part_rows:
                    for group, entries in self._groups(page):
                        writer.write_table(library.table_of(entries, self._vectors(group), schema))
                        new = [Position(at.id, number, rows + n, 0) for n, at in enumerate(group)]
                        self._catalog.move(group, new)
                        rows += len(group)
                    page = next(pages, None)
            self._catalog.set_part(number, Part(rows, rows, 0))
            number = max(self._catalog.parts()) + 1

    def _groups(self, page: list[Position]) -> Iterator[tuple[list[Position], list[Entry]]]:
        """Cut a page into row groups, whose texts are read as a whole."""
        group: list[Position] = []
        entries: list[Entry] = []
        for some in slices(page, TEXTS):
            group, entries = [*group, *some], [*entries, *self._entries(some)]
            if (
                sum(len(entry.text) for entry in entries) >= _GROUP_CHARACTERS
                or some[-1] is page[-1]
            ):
                yield group, entries
                group, entries = [], []

    def _sweep(self) -> None:
        known = self._catalog.parts()
        for path in self._folder.glob("part-*.parquet"):
            match = _PART.fullmatch(path.name)
            if match and int(match[1]) not in known:
                path.unlink()

    def _close_files(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}

    def _forget_files(self) -> None:
        super()._forget_files()
        self._close_files()


def _name(part: int) -> str:
    return f"part-{part:05}.parquet"
