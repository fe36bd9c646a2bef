"""FAISS: a flat index of inner products, or of bits that differ, which FAISS opens by itself."""

from __future__ import annotations

import struct
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgebert.errors import StoreError
from edgebert.features.entries import Vectors
from edgebert.features.stores.indexed import IndexedStore, Rows, blocks


class FaissStore(IndexedStore):
    """Keeps ``index.faiss`` beside the two files of ``npy:``.

    ``faiss.read_index`` opens it (of ``binary`` vectors ``faiss.read_index_binary``). Its vectors
    have unit length, so that for a query of unit length its scores are cosines. What it says of
    row i is meant of line i of ``entries.jsonl``.
    """

    kind: ClassVar[str] = "faiss"
    install: ClassVar[str] = "pip install 'edgebert[faiss]'"
    needs: ClassVar[str | None] = "faiss"
    index_name: ClassVar[str] = "index.faiss"

    def _build(self, path: Path, vectors: Vectors, old: Path | None, kept: Rows | None) -> None:
        """Write what FAISS would, without having all of it in memory."""
        del old, kept  # a flat index is nothing but its vectors
        assert self._identity is not None
        faiss: Any = import_module("faiss")
        width = vectors.shape[1]
        if self._identity.dtype == "binary":
            empty, at = faiss.serialize_index_binary(faiss.IndexBinaryFlat(8 * width)), 12
        else:
            empty, at = faiss.serialize_index(faiss.IndexFlatIP(width)), 8
        header = bytearray(empty.tobytes())
        header[at : at + 8] = struct.pack("<q", len(vectors))
        header[-8:] = struct.pack("<Q", vectors.size)
        with path.open("wb") as stream:
            stream.write(header)
            for block in blocks(vectors, self._identity):
                stream.write(np.ascontiguousarray(block).tobytes())
        count = self._load(path).ntotal
        if count != len(vectors):
            raise StoreError(f"{path} has {count} vectors instead of {len(vectors)}.")

    def _load(self, path: Path) -> Any:
        faiss: Any = import_module("faiss")
        assert self._identity is not None
        binary = self._identity.dtype == "binary"
        read = faiss.read_index_binary if binary else faiss.read_index
        return read(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))

    def _ask(self, index: Any, query: Vectors, count: int) -> Rows:
        _, rows = index.search(query, count)
        return np.asarray(rows[0][rows[0] >= 0], np.int64)
