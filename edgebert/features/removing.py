"""The rows that ``--update`` removes, and how many those may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias

from edgebert.errors import DataError, InputError
from edgebert.features.journal import Journal, Mark
from edgebert.features.seen import Seen

Most: TypeAlias = "int | float | None"

MAX_REMOVED = 0.5  # by default; more is rather an input that was cut short, or other ids
_AT_ONCE = 500  # rows


def check_max_removed(most: Most) -> None:
    """Make sure that it is a number of rows, or a share of them.

    Raises:
        InputError: It's neither.
    """
    count = isinstance(most, int) and not isinstance(most, bool) and most >= 0
    if most is not None and not count and not (isinstance(most, float) and 0 <= most <= 1):
        raise InputError(
            f"max_removed is {most!r}; it must be a whole number of rows, 0 or more, a share of "
            "the stored ones as a float from 0.0 to 1.0, or None."
        )


def check_gone(
    journal: Journal, seen: Seen, *, added: int, most: Most, check: Callable[[], None]
) -> None:
    """Make sure, before any row is removed, that no more are gone than may be.

    Args:
        journal: Of the store, with the rows of this run.
        seen: Keys of the source.
        added: Rows that this run has added, and that were not stored before it.
        most: So many of those that were stored, or such a share of them, may go; None for all.
        check: Called every now and then; may raise.

    Raises:
        DataError: More are gone.
    """
    if most is None:
        return
    before = len(journal) - added
    allowed = most * before if isinstance(most, float) else most
    count = sum(len(some) for some in pages_gone(journal, seen, check=check))
    if count > allowed:
        limit = f"{most:.6g}" if isinstance(most, int) else f"{100 * most:.6g}%"
        raise DataError(
            f"--update would remove {count} of the {before} rows that were stored, more than "
            f"--max-removed {limit}. Is the input all that the store shall hold, with the same "
            "ids? None was removed; what is new or changed was stored. If they shall go, run it "
            f"again with --max-removed {count}."
        )


def pages_gone(journal: Journal, seen: Seen, *, check: Callable[[], None]) -> Iterator[list[Mark]]:
    """Give the rows of a journal that a source no more has; they may be removed meanwhile."""
    every = journal.every()
    while page := list(islice(every, _AT_ONCE)):
        check()
        held = seen.which([mark.key for mark in page])
        if gone := [mark for mark in page if mark.key not in held]:
            yield gone
