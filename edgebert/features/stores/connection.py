"""A connection to a SQL database: transactions, and failures that may be tried again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TypeVar

from edgebert.errors import StoreError

T = TypeVar("T")

_DAMAGED = ("malformed", "corrupt", "not a database")  # as SQLite and DuckDB say it


class Connection(ABC):
    """What `edgebert.features.stores.base.Sql` says, with transactions.

    Args:
        place: What messages call the database.
        failure: What its package raises.
    """

    begin: ClassVar[str] = "BEGIN"  # of a transaction that writes

    def __init__(self, place: str, failure: type[Exception]) -> None:
        self._place = place
        self._failure = failure
        self.inside = False

    @abstractmethod
    def _run(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one statement."""

    @abstractmethod
    def _run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement once a row, within a transaction."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; a second time does nothing."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, its values marked by ``?``; give its rows.

        Raises:
            StoreError: It failed.
        """
        return self.call(self._run, statement, values)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement once a row of values: for all of them, or for none.

        Raises:
            StoreError: It failed.
        """
        if rows:
            with self.within():
                self.call(self._run_many, statement, rows)

    @contextmanager
    def within(self, begin: str | None = None) -> Iterator[None]:
        """Make what happens within all or nothing; part of the transaction that is under way."""
        if self.inside:
            yield
            return
        try:
            self.inside = True
            self.execute(begin or self.begin)
            yield
            self.execute("COMMIT")
        except BaseException:  # also when interrupted
            with suppress(StoreError):  # the database may have undone it by itself
                self.execute("ROLLBACK")
            raise
        finally:
            self.inside = False

    def call(self, action: Callable[..., T], *values: Any, **options: Any) -> T:
        """Do something with the package, whose failures become `StoreError`."""
        try:
            return action(*values, **options)
        except self._failure as error:
            reason = " ".join(str(error).split())  # one line
            remedy = "Try it again."
            if any(word in reason.lower() for word in _DAMAGED):
                remedy = "Restore it from a copy, or extract anew into another place."
            raise StoreError(f"{self._place} failed: {reason.rstrip('.')}. {remedy}") from error
