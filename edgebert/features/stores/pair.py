"""Two files that grow together: vectors that ``numpy.load`` opens, and their entries as lines."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from edgebert.errors import InputError
from edgebert.features.entries import Entry, Identity, Vectors
from edgebert.features.stores.checks import FORMS, width

VECTORS, LINES = "vectors.npy", "entries.jsonl"
HEADER_BYTES = 128  # room for any number of rows, so that it grows in place


def header(form: np.dtype[Any], rows: int, columns: int) -> bytes:
    """Write the first bytes of a ``.npy`` file (version 1.0), always `HEADER_BYTES` of them."""
    shape = {"descr": form.str, "fortran_order": False, "shape": (rows, columns)}
    text = repr(shape).encode().ljust(HEADER_BYTES - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def line_of(entry: Entry) -> bytes:
    """Write an entry as a line of JSON.

    Raises:
        InputError: A text of it has half a character (a lone surrogate), which no file can hold.
    """
    facts = {name: getattr(entry, name) for name in Entry.__slots__}
    facts["metadata"] = dict(entry.metadata)
    try:
        return json.dumps(facts, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise InputError(
            f"Entry {entry.id!r:.100} holds half a character (a lone surrogate), which UTF-8 "
            "can't write. Read its text with the right encoding, or leave it out."
        ) from error


class Pair:
    """``vectors.npy`` and ``entries.jsonl`` of a folder: row i and line i are one entry.

    What is appended counts once `settle` says so; what a killed process left behind the last row
    that counts is cut off there.

    Attributes:
        rows: Written so far.
        size: Bytes of the lines so far.
    """

    def __init__(self, vectors: Path, lines: Path, identity: Identity, *, read_only: bool) -> None:
        self._form, self._width = np.dtype(FORMS[identity.dtype]), width(identity)
        self._paths, self._read_only = (vectors, lines), read_only
        self._vectors: BinaryIO = vectors.open("rb" if read_only else "r+b")
        try:
            self._lines: BinaryIO = lines.open("rb" if read_only else "r+b")
        except OSError:
            self._vectors.close()
            raise
        self.rows = self.size = 0

    @classmethod
    def create(cls, folder: Path, identity: Identity) -> Pair:
        """Make a pair of no rows in a folder, over one that is there."""
        folder.mkdir(parents=True, exist_ok=True)
        first = header(np.dtype(FORMS[identity.dtype]), 0, width(identity))
        (folder / VECTORS).write_bytes(first)
        (folder / LINES).write_bytes(b"")
        return cls(folder / VECTORS, folder / LINES, identity, read_only=False)

    def settle(self, rows: int, size: int) -> None:
        """Say how much of the files counts; cut off the rest, unless they are only read.

        Raises:
            InputError: They hold less than that.
        """
        end = HEADER_BYTES + rows * self._width * self._form.itemsize
        for path, stream, least in zip(
            self._paths, (self._vectors, self._lines), (end, size), strict=True
        ):
            there = os.fstat(stream.fileno()).st_size
            if there < least:
                raise InputError(
                    f"{path} is damaged: it has {there} bytes where {least} were written. Restore "
                    "the folder, or extract anew into an empty one."
                )
            if there > least and not self._read_only:
                stream.truncate(least)
        if not self._read_only:
            self._put(self._vectors, 0, header(self._form, rows, self._width))
        self.rows, self.size = rows, size

    def go_on(self, rows: int, size: int) -> None:
        """Append behind these rows next, and these bytes of lines."""
        self.rows, self.size = rows, size

    def append(self, lines: Sequence[bytes], vectors: Vectors) -> list[int]:
        """Write rows behind the last; give the byte at which each line begins."""
        places = list(accumulate(map(len, lines), initial=self.size))
        end = HEADER_BYTES + self.rows * self._width * self._form.itemsize
        self._put(self._vectors, end, vectors.tobytes())
        self._put(self._lines, self.size, b"".join(lines))
        self.rows, self.size = self.rows + len(lines), places.pop()
        return places

    def sync(self) -> None:
        """Make what was appended outlive a power cut."""
        for stream in (self._vectors, self._lines):
            os.fsync(stream.fileno())

    @staticmethod
    def _put(stream: BinaryIO, at: int, data: bytes) -> None:
        stream.seek(at)
        stream.write(data)
        stream.flush()

    def vectors(self, rows: Sequence[int]) -> Vectors:
        """Give rows as they were written, ``[len(rows), width]``."""
        if not rows:
            return np.empty((0, self._width), self._form)
        first = min(rows)  # the map ends with the call, or all that was read would stay resident
        shape = (max(rows) + 1 - first, self._width)
        start = HEADER_BYTES + first * self._width * self._form.itemsize
        mapped = np.memmap(self._vectors, self._form, "r", start, shape)
        return np.array(mapped[np.asarray(rows, np.int64) - first])

    def lines(self, places: Sequence[int]) -> list[bytes]:
        """Give the lines that begin at some bytes."""
        found = []
        for place in places:
            self._lines.seek(place)
            found.append(self._lines.readline())
        return found

    def entries(self, places: Sequence[int]) -> list[Entry]:
        """Give the entries whose lines begin at some bytes."""
        return [Entry(**json.loads(line)) for line in self.lines(places)]

    def close(self) -> None:
        """Let go of the files."""
        self._vectors.close()
        self._lines.close()
