"""What every vector store can do, whatever holds the bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol

import numpy as np

from edgebert.features.entries import Entry, Hit, Identity, Scalar, Vectors
from edgebert.types import FloatArray


class Sql(Protocol):
    """A database of the store's own, for what must change together with its vectors."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, its values marked by ``?``; give its rows."""

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement once a row of values."""


class Store(ABC):
    """Entries and their vectors under ids. Use it in a ``with``, from one thread at a time.

    Whoever opens a place that isn't there gets an empty store, written with the first `bind`.

    Attributes:
        kind: The scheme of its URI, and the name of its module.
        install: How its package is had.
    """

    kind: ClassVar[str]
    install: ClassVar[str]

    @classmethod
    @abstractmethod
    def open(cls, location: str, *, read_only: bool = False) -> Store:
        """Open a store.

        Args:
            location: What stands behind ``kind:`` in its URI; of a server the whole URL.
            read_only: Change nothing; a place that isn't there is then an error.

        Raises:
            InputError: There is something else at this place, or nothing to read.
            PackageMissingError: Its package isn't installed; the message has the line that does.
            StoreError: It can't be opened.
        """

    @property
    @abstractmethod
    def identity(self) -> Identity | None:
        """Of its vectors; None before the first `bind`."""

    @abstractmethod
    def bind(self, identity: Identity) -> None:
        """Say what its vectors are, once; again only the same.

        Raises:
            InputError: It holds others.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Count its entries."""

    @abstractmethod
    def ids(self) -> Iterator[str]:
        """Give all ids, in rising order, in bounded memory."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> Vectors:
        """Give vectors in the order of ``ids``, bit for bit as they were put.

        Raises:
            InputError: It has no such id; the first one is named.
        """

    @abstractmethod
    def entries(self, ids: Sequence[str]) -> list[Entry]:
        """Give entries in the order of ``ids``; errors as `get`."""

    @abstractmethod
    def write(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        """Put entries, replacing those of the same id; all are durable when this returns.

        Done again with the same arguments, it changes nothing.

        Args:
            entries: With ids that differ.
            vectors: One row each, finite, in the form that `identity` says.

        Raises:
            StoreError: The store failed; done again, it may not.
        """

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Remove entries; those that aren't there are no error."""

    @abstractmethod
    def search(
        self,
        vector: FloatArray,
        k: int,
        *,
        where: Mapping[str, Scalar] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """Find the entries that are most like a query, the best first; ties by id.

        Args:
            vector: float32 ``[dim]``, whatever form the store's vectors have.
            k: How many at most.
            where: Metadata that must be equal, all of it; ``key`` asks for the source's key.
            exact: Compare with every entry, whatever index there is.

        Raises:
            InputError: The vector has another number of dimensions, or isn't finite.
        """

    def transaction(self) -> AbstractContextManager[None]:
        """Make what happens within all or nothing, where `sql` gives a database."""
        return nullcontext()

    def sql(self) -> Sql | None:
        """Give the database that a transaction covers, for the journal; None without one."""
        return None

    @abstractmethod
    def journal_path(self) -> Path | None:
        """Say where a journal of its own stands where `sql` gives none; None where it gives one."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; a second time does nothing."""

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def full_vectors(vectors: Vectors, identity: Identity) -> FloatArray:
    """Turn stored vectors into float32 ``[n, dim]``; the bits of ``binary`` into -1 and 1."""
    if identity.dtype == "binary":
        bits = np.unpackbits(vectors, axis=1, count=identity.dim)
        return bits.astype(np.float32) * 2 - 1
    full = vectors.astype(np.float32)
    return full * np.asarray(identity.int8_scale, np.float32) if identity.int8_scale else full
