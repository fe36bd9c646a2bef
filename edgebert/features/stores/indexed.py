"""Folders of `edgebert.features.stores.npy` with an index beside, which its own library opens."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from edgebert.errors import InputError
from edgebert.features.entries import Identity, Vectors
from edgebert.features.stores import staging
from edgebert.features.stores.base import full_vectors
from edgebert.features.stores.catalog import PAGE, Position
from edgebert.features.stores.npy import NpyStore
from edgebert.features.stores.pair import VECTORS
from edgebert.types import FloatArray

logger = logging.getLogger(__name__)

Rows = npt.NDArray[np.int64]


def comparable(vectors: Vectors, identity: Identity) -> Vectors:
    """Give vectors as an index takes them: of unit length, float32 ``[n, dim]``; bits as they are.

    A vector of zeros stays one.
    """
    if identity.dtype == "binary":
        return vectors
    full = full_vectors(vectors, identity).astype(np.float64)
    lengths = np.sqrt((full * full).sum(axis=1, keepdims=True))
    unit = np.divide(full, lengths, out=np.zeros_like(full), where=lengths > 0)
    return np.asarray(unit, np.float32)


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Tell what to do about an index that its library can't open."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"{path} can't be opened ({error}). Remove it: the next one that opens the store to "
            "write builds it anew, and until then all vectors are compared."
        ) from error


class IndexedStore(NpyStore):
    """Builds an index when it's closed; key i of the index is row i of ``vectors.npy``.

    What was written since then is compared one by one, and so is everything where no index is yet,
    as after a process was killed. Scores are those of the stored vectors, whatever the index says.
    """

    index_name: ClassVar[str]

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        super().__init__(folder, read_only=read_only)
        self._open_index: Any = None  # the libraries have no types

    # What each library does in its own way

    @abstractmethod
    def _build(self, path: Path, vectors: Vectors, old: Path | None, kept: Rows | None) -> None:
        """Write an index.

        Args:
            path: Where.
            vectors: All that it shall have, as stored, mapped from a file.
            old: An index of rows that are still there; None without one.
            kept: Which rows of ``old`` are the first of ``vectors``; None for all.
        """

    @abstractmethod
    def _load(self, path: Path) -> Any:
        """Open an index to be searched, mapped from its file."""

    @abstractmethod
    def _ask(self, index: Any, query: Vectors, count: int) -> Rows:
        """Give the rows nearest to a query ``[1, width]`` in the form of `comparable`."""

    # What both do

    def _indexed(self) -> int:
        return int(self._catalog.fact("indexed") or 0)

    def _stage(self, place: Path) -> bool:
        log, indexed = self._catalog.parts()[0], self._indexed()
        if not (self._folder / self.index_name).exists():
            indexed = 0  # somebody removed it, to have another
        kept = self._kept(indexed) if log.live < log.rows else None
        compacted = super()._stage(place)
        if not compacted and indexed == log.rows:  # both may be 0
            return False
        logger.info("%s: indexing %d vectors", self._place, log.live)
        source = place if compacted else self._folder
        vectors = np.load(source / VECTORS, mmap_mode="r" if log.live else None)
        old = self._folder / self.index_name if indexed else None
        self._forget_index()
        self._build(place / self.index_name, vectors, old, kept)
        self._catalog.set_fact("indexed", str(len(vectors)))
        return True

    def _kept(self, indexed: int) -> Rows:
        pages = ([position.row for position in page] for page in self._catalog.pages(0))
        rows = np.fromiter(chain.from_iterable(pages), np.int64)
        return rows[rows < indexed]

    def _candidates(self, vector: FloatArray, k: int) -> Iterable[list[Position]] | None:
        assert self._identity is not None
        log, indexed = self._catalog.parts()[0], self._indexed()
        count = 2 * k + 16 + log.rows - log.live  # some may be gone, some rounded to less
        path = staging.path_now(self._folder, self._generation, self.index_name)
        if count > indexed // 2 or not path.exists():
            return None
        if self._open_index is None:
            with opening(path):
                self._open_index = self._load(path)
        binary = self._identity.dtype == "binary"
        query = np.packbits(vector > 0) if binary else _unit(vector)
        found = self._catalog.at(0, self._ask(self._open_index, query[None], count).tolist())
        if len(found) < k:
            return None
        return chain([found], self._catalog.pages(0, first=indexed))

    def _forget_index(self) -> None:
        self._open_index = None

    def _forget_files(self) -> None:
        super()._forget_files()
        self._forget_index()


def blocks(vectors: Vectors, identity: Identity, *, first: int = 0) -> Iterator[Vectors]:
    """Give stored vectors as `comparable`, some at a time, from a row on."""
    for start in range(first, len(vectors), PAGE):
        yield comparable(np.asarray(vectors[start : start + PAGE]), identity)


def _unit(vector: FloatArray) -> FloatArray:
    length = float(np.sqrt((vector.astype(np.float64) ** 2).sum()))
    return np.asarray(vector / length if length else vector, np.float32)
