"""One file of a Parquet store: its columns, its rows."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from edgebert.errors import InputError
from edgebert.features.entries import Entry, Identity, Vectors
from edgebert.features.stores.checks import FORMS, width

IDENTITY = b"edgebert.identity"  # in the schema's metadata
_COLUMNS = [name for name in Entry.__slots__ if name != "metadata"]
_TYPES = {"chunk": pa.int64(), "start": pa.int64(), "end": pa.int64()}
_CODECS = {"key": "zstd", "text": "zstd", "metadata": "zstd"}  # digests and vectors don't shrink
_NUMBERS = {
    "float32": pa.float32(),
    "float16": pa.float16(),
    "int8": pa.int8(),
    "binary": pa.uint8(),
}


def schema_of(identity: Identity) -> Any:
    """Give the columns: an entry's, its metadata as JSON, its vector as a list of numbers."""
    number = pa.field("element", _NUMBERS[identity.dtype], nullable=False)
    fields = [
        *((name, _TYPES.get(name, pa.string())) for name in _COLUMNS),
        ("metadata", pa.string()),
        ("vector", pa.list_(number, width(identity))),
    ]
    columns = [pa.field(name, kind, nullable=False) for name, kind in fields]
    return pa.schema(columns, metadata={IDENTITY: identity.to_json().encode()})


def table_of(entries: Sequence[Entry], vectors: Vectors, schema: Any) -> Any:
    """Give entries as a table, one row group when it's written."""
    columns = [
        pa.array([getattr(entry, field.name) for entry in entries], field.type)
        for field in list(schema)[:-2]
    ]
    metadata = [json.dumps(dict(entry.metadata), ensure_ascii=False) for entry in entries]
    numbers = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(numbers, type=schema.field("vector").type)
    return pa.Table.from_arrays([*columns, pa.array(metadata, pa.string()), lists], schema=schema)


def writer(path: Path, schema: Any) -> Any:
    """Open a new file to write tables to, a row group each; use it in a ``with``."""
    return pq.ParquetWriter(
        path, schema, compression=_CODECS, use_dictionary=False, write_statistics=["id", "key"]
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell what to do about a file that can't be read.

    Raises:
        InputError: It is damaged, or not there.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path} is damaged ({reason}). Restore the folder, or extract anew into an empty one."
        ) from error


class ParquetFile:
    """An open file, not mapped: what was read would stay resident. The last row group does."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self._form, self._width = np.dtype(FORMS[identity.dtype]), width(identity)
        self._path = path
        with reading(path):
            self._file: Any = pq.ParquetFile(path)
        groups = range(self._file.num_row_groups)
        sizes = (self._file.metadata.row_group(group).num_rows for group in groups)
        self._starts = list(accumulate(sizes, initial=0))
        self._last: tuple[int, Vectors] | None = None
        self._texts: tuple[int, Any] | None = None

    def _by_group(self, rows: Sequence[int]) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = {}
        for at, row in enumerate(rows):
            groups.setdefault(bisect_right(self._starts, row) - 1, []).append(at)
        return groups

    def _group(self, group: int, columns: list[str]) -> Any:
        with reading(self._path):
            return self._file.read_row_group(group, columns, use_threads=False)

    def vectors(self, rows: Sequence[int]) -> Vectors:
        """Give the vectors of rows, ``[len(rows), width]``."""
        found = np.empty((len(rows), self._width), self._form)
        for group, places in self._by_group(rows).items():
            if self._last is None or self._last[0] != group:
                column = self._group(group, ["vector"]).column(0)
                numbers = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
                self._last = group, numbers.reshape(-1, self._width)
            start = self._starts[group]
            found[places] = self._last[1][[rows[place] - start for place in places]]
        return found

    def entries(self, rows: Sequence[int]) -> list[Entry]:
        """Give the entries of rows."""
        found: dict[int, Entry] = {}
        for group, places in self._by_group(rows).items():
            if self._texts is None or self._texts[0] != group:
                self._texts = group, self._group(group, [*_COLUMNS, "metadata"])
            start = self._starts[group]
            some = self._texts[1].take([rows[place] - start for place in places]).to_pylist()
            for place, facts in zip(places, some, strict=True):
                found[place] = Entry(**{**facts, "metadata": json.loads(facts["metadata"])})
        return [found[place] for place in range(len(rows))]

    def close(self) -> None:
        """Let go of the file."""
        self._last = self._texts = None
        self._file.close()
