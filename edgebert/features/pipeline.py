"""Rows into a store: reading, tokenizing, inference and writing overlap, and the order is kept.

Rows are cut into blocks by their number. The reader has a thread, and so have the tokenizer and the
engine, or they are in processes; the store and its journal belong to the thread that called. What
a block's vectors are depends on that block alone, so a run that goes on makes the same as one that
was never stopped.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from edgebert.errors import DataError, StoreError
from edgebert.features.chain import Embedder
from edgebert.features.interrupt import Interrupt
from edgebert.features.journal import BEGUN, Journal, Mark, digest_of
from edgebert.features.model import Embedded
from edgebert.features.quarantine import Quarantine
from edgebert.features.removing import Most, check_gone, pages_gone
from edgebert.features.rows import Row
from edgebert.features.seen import Seen
from edgebert.features.sources import Source
from edgebert.features.summary import Clock, Progress, Summary
from edgebert.features.threads import read_ahead, result_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

BLOCK_ROWS = 2048  # enough to sort by length: the engine's calls are then filled
BLOCK_CHARACTERS = 1 << 20  # of long texts a block has fewer
TOKENS_SHARE = 32  # a block of token vectors is so much smaller: each text has many
AHEAD = 2  # blocks that wait for the one that is being written
RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)  # between the tries of a store that fails


@dataclass(frozen=True)
class Block:
    """Rows that are run together.

    Attributes:
        rows: As they were read.
        fraction: Of the source that was read with it, 0 to 1; None where that can't be known.
    """

    rows: list[Row]
    fraction: float | None


@dataclass(frozen=True)
class _Job:
    """A block under way: what the journal has of its rows, and the run of those that are due."""

    block: Block
    marks: dict[str, Mark]
    result: Future[Embedded] | None


class Pipeline:
    """Brings rows into a store.

    Attributes:
        summary: What was done so far.
    """

    def __init__(
        self,
        embedder: Embedder,
        journal: Journal,
        quarantine: Quarantine,
        summary: Summary,
        interrupt: Interrupt,
        clock: Clock,
        *,
        update: bool,
        max_removed: Most,
        share: int = 1,
    ) -> None:
        """Take the parts, which stay open.

        Args:
            embedder: Makes the vectors.
            journal: Of the store.
            quarantine: Takes rows that can't be used.
            summary: Is filled.
            interrupt: Asks to stop.
            clock: Counts the seconds of each stage.
            update: Whether changed rows are embedded anew, and those that are gone removed.
            max_removed: How many may be removed, see `check_gone`.
            share: Blocks are one of so many parts of the usual ones, see `TOKENS_SHARE`.
        """
        self._embedder, self._journal, self._quarantine = embedder, journal, quarantine
        self.summary, self._interrupt, self._update = summary, interrupt, update
        self._clock, self._progress, self._share = clock, Progress(), share
        self._max_removed = max_removed

    def run(self, source: Source) -> None:
        """Bring every row of a source into the store.

        Raises:
            KeyboardInterrupt: It was asked to stop; the next run goes on.
            DataError: Two rows have the same key, there is no row, too many are bad, or too many
                would be removed.
            StoreError: The store failed again and again.
        """
        try:
            with closing(Seen()) as seen:
                self._run_blocks(source, seen)
                if not self.summary.rows:
                    raise DataError("There are no rows; check the path.")
                if self._update:
                    self._remove_gone(seen)
        finally:
            self.summary.seconds = self._clock.read()
            self.summary.quarantined = self._quarantine.count
        self._tell_of_kept()

    def _run_blocks(self, source: Source, seen: Seen) -> None:
        check = self._interrupt.check
        waiting: deque[_Job] = deque()
        blocks = blocks_of(source, self._clock, share=self._share)
        most = AHEAD + self._embedder.count - 1
        for block in read_ahead(blocks, most=most, check=check):
            check()
            with self._clock.of("write"):
                job = self._begin(block, seen)
            waiting.append(job)
            while len(waiting) > most:
                self._end(waiting.popleft())
        while waiting:
            self._end(waiting.popleft())

    def _begin(self, block: Block, seen: Seen) -> _Job:
        """See what is to be done for a block, and begin it."""
        seen.add(block.rows)
        keys = [row.key for row in block.rows if row.fault is None and row.key is not None]
        marks = self._tried(partial(self._journal.find, keys))
        todo = [row for row in block.rows if row.fault is None and self._is_due(row, marks)]
        return _Job(block, marks, self._embedder.submit(todo) if todo else None)

    def _is_due(self, row: Row, marks: dict[str, Mark]) -> bool:
        mark = marks.get(row.key or "")
        if mark is None or not mark.settled:
            return True
        if mark.digest == digest_of(row):
            self.summary.unchanged += 1
            return False
        self.summary.kept += not self._update
        return self._update

    def _end(self, job: _Job) -> None:
        """Wait for a block's vectors and store them."""
        self._interrupt.check()
        summary = self.summary
        done = None if job.result is None else result_of(job.result, self._interrupt.check)
        if done is not None:
            with self._clock.of("write"):
                self._write(job, done)
        reasons = {row.key: why for row, why in done.bad} if done else {}  # places may be shared
        for row in job.block.rows:
            why = row.fault or reasons.get(row.key)
            if why is not None:
                self._quarantine.add(row, why)
        summary.rows += len(job.block.rows)
        self._progress.tell(summary.rows, job.block.fraction, idle=not summary.entries)

    def _write(self, job: _Job, done: Embedded) -> None:
        summary = self.summary
        if done.rows:
            marks = [
                Mark(row.key or "", digest_of(row), tuple(entry.id for entry in entries))
                for row, entries in zip(done.rows, done.entries, strict=True)
            ]
            old = [job.marks[mark.key] for mark in marks if mark.key in job.marks]
            entries = done.every_entry
            self._tried(partial(self._journal.write, marks, entries, done.vectors, old))
            changed = sum(mark.digest != BEGUN for mark in old)
            summary.changed += changed
            summary.added += len(marks) - changed
            summary.entries += len(entries)
        summary.tokens += done.tokens
        summary.dropped_tokens += done.dropped_tokens

    def _remove_gone(self, seen: Seen) -> None:
        if self._quarantine.without_key:
            logger.warning(
                "%d bad rows have no key, so it can't be told which rows are gone: none is removed",
                self._quarantine.without_key,
            )
            return
        journal, check = self._journal, self._interrupt.check
        added, most = self.summary.added, self._max_removed
        check_gone(journal, seen, added=added, most=most, check=check)
        for gone in pages_gone(journal, seen, check=check):
            self._tried(partial(journal.remove, gone))
            self.summary.removed += len(gone)

    def _tried(self, action: Callable[[], T]) -> T:
        """Do it; where the store fails, wait and do it again."""
        for seconds in RETRY_SECONDS:
            try:
                return action()
            except StoreError as error:
                logger.warning("%s Trying again in %g s.", error, seconds)
                end = time.monotonic() + seconds
                while (left := end - time.monotonic()) > 0:
                    self._interrupt.check()
                    time.sleep(min(0.1, left))
        try:
            return action()
        except StoreError as error:
            raise StoreError(
                f"{error} It failed {len(RETRY_SECONDS) + 1} times. What is stored stays; the same "
                "command goes on from there."
            ) from error

    def _tell_of_kept(self) -> None:
        if self.summary.kept:
            logger.warning(
                "%d rows have changed since they were stored, and were left as they were; "
                "--update embeds them anew",
                self.summary.kept,
            )


def blocks_of(source: Source, clock: Clock, *, share: int = 1) -> Iterator[Block]:
    """Cut a source into blocks: by the number of rows, and of characters where texts are long.

    Args:
        source: Is read.
        clock: Counts the seconds of that.
        share: A block is one of so many parts of the usual one.
    """
    most_rows, most_characters = max(1, BLOCK_ROWS // share), BLOCK_CHARACTERS // share
    rows: list[Row] = []
    characters = 0
    stream = iter(source)
    while True:
        with clock.of("read"):
            row = next(stream, None)
        if row is not None:
            rows.append(row)
            characters += len(row.text)
        if rows and (row is None or len(rows) >= most_rows or characters >= most_characters):
            yield Block(rows, source.fraction())
            rows, characters = [], 0
        if row is None:
            return
