"""USearch: a graph of near neighbours (HNSW) in a file that is searched without being loaded."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgebert.features.entries import Vectors
from edgebert.features.stores.catalog import PAGE
from edgebert.features.stores.indexed import IndexedStore, Rows, blocks, opening

# Half of float32: an index of it is built in 60 % of the time, and scores are the store's own.
_FORMS = {"float32": "f16", "float16": "f16", "int8": "i8", "binary": "b1"}


class UsearchStore(IndexedStore):
    """Keeps ``index.usearch`` beside the two files of ``npy:``.

    ``usearch.index.Index.restore`` opens it; its key i is line i of ``entries.jsonl``. A search
    without ``exact`` may miss some of the nearest. While the index is built, when the store is
    closed, it is in memory as a whole.
    """

    kind: ClassVar[str] = "usearch"
    install: ClassVar[str] = "pip install 'edgebert[usearch]'"
    needs: ClassVar[str | None] = "usearch"
    index_name: ClassVar[str] = "index.usearch"

    def _build(self, path: Path, vectors: Vectors, old: Path | None, kept: Rows | None) -> None:
        library: Any = import_module("usearch.index")
        assert self._identity is not None
        binary, width = self._identity.dtype == "binary", vectors.shape[1]
        index = library.Index(
            ndim=8 * width if binary else width,
            metric="hamming" if binary else "cos",
            dtype=_FORMS[self._identity.dtype],
        )
        first = 0
        if old is not None:
            with opening(old):
                index.load(old)
            first = len(index) if kept is None else len(kept)
        if old is not None and kept is not None:
            _renumber(index, kept)
        for block in blocks(vectors, self._identity, first=first):
            index.add(np.arange(first, first + len(block)), block)
            first += len(block)
        index.save(path)

    def _load(self, path: Path) -> Any:
        return import_module("usearch.index").Index.restore(path, view=True)

    def _ask(self, index: Any, query: Vectors, count: int) -> Rows:
        return np.asarray(index.search(query[0], count).keys, np.int64)


def _renumber(index: Any, kept: Rows) -> None:
    """Take the rows out of an index that aren't kept, and number the others anew."""
    gone = np.setdiff1d(np.arange(len(index)), kept)
    for start in range(0, len(gone), PAGE):
        index.remove(gone[start : start + PAGE])
    moved = np.flatnonzero(kept != np.arange(len(kept)))  # to lower numbers, that are free by then
    for start in range(0, len(moved), PAGE):
        some = moved[start : start + PAGE]
        index.rename(kept[some], some)
