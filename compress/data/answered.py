"""Questions on contexts: from a table's cells to answers that stand where they say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from compress.data.cells import Table
from compress.data.columns import Answers, find_column, read_texts, text_fault
from compress.data.task_data import Split, make_split, take
from edgebert.errors import DataError

logger = logging.getLogger(__name__)

ANSWER_NAMES = ("answers", "answer")
NOWHERE = -1  # start of an answer whose words are right, but that is no part of the context


def answered_split(
    table: Table,
    *,
    name: str,
    question: str | None = None,
    context: str | None = None,
    answers: str | None = None,
    answers_optional: bool = False,
) -> Split:
    """Read questions on contexts, with any number of true answers; none says there is no answer.

    An answer that is not where ``answer_start`` says is looked for. If it's in the context once, it
    is moved there; with a negative start, as in CMRC 2018, it may be nowhere: its text counts in
    scores, and nothing is trained on it. Both are counted in the log, and so are empty questions,
    which stay (CMRC 2018 has two).

    Args:
        table: Columns ``question``, ``context`` and ``answers``, as SQuAD has them.
        name: Of the split.
        question: Column asked for, or None.
        context: Column asked for, or None.
        answers: Column asked for, or None.
        answers_optional: Whether a file without answers is fine.

    Raises:
        DataError: A column is missing, or rows are bad: an empty text, answers of another form, or
            one that is not in the context or there more than once. All are named, with their id.
    """
    question_column = find_column(table, question, ("question",), "--text-column") or ""
    context_column = find_column(table, context, ("context",), "--text-pair-column") or ""
    column = find_column(table, answers, ANSWER_NAMES, "--label-column", optional=answers_optional)
    questions = _questions(table, question_column)
    contexts = read_texts(table, context_column)
    ids = table.columns.get("id")
    labels = None if column is None else _Reader(table, contexts, ids).read(column)
    table.bad.raise_if_any()
    split = make_split(
        name,
        table.source,
        questions,
        text_pairs=contexts,
        labels=labels,
        ids=None if ids is None else [str(one) for one in ids],
    )
    return _trainable(split) if name == "train" else split


def _questions(table: Table, column: str) -> list[str]:
    cells = table.columns[column]
    empty = sum(1 for cell in cells if cell == "")
    if empty:
        logger.warning("%s: %d of %d questions are empty.", table.source, empty, len(table))
    for line, cell in zip(table.lines, cells, strict=True):
        fault = None if cell == "" else text_fault(cell, f"column {column!r}")
        if fault is not None:
            table.bad.add(line, fault)
    return cells


class _Reader:
    """Reads the answers of one file, and counts what it had to put right."""

    def __init__(self, table: Table, contexts: list[Any], ids: list[Any] | None) -> None:
        self._table, self._contexts, self._ids = table, contexts, ids
        self._moved: list[str] = []
        self._nowhere: list[str] = []

    def read(self, column: str) -> list[Answers]:
        table = self._table
        impossible = table.columns.get("is_impossible") or [False] * len(table)
        found: list[Answers] = []
        for row, cell in enumerate(table.columns[column]):
            try:
                given = [] if impossible[row] else list(_answers(cell))
                found.append(tuple(self._placed(row, text, start) for text, start in given))
            except ValueError as error:
                table.bad.add(table.lines[row], f"{self._name(row)}{error}")
        self._tell(self._moved, "stood elsewhere, once, and were moved there")
        self._tell(self._nowhere, "are nowhere in their context, and count in scores alone")
        return found

    def _placed(self, row: int, text: str, start: int) -> tuple[str, int]:
        context = self._contexts[row]
        if not isinstance(context, str):
            raise ValueError("the context is no text")
        if start >= 0 and context.startswith(text, start):
            return text, start
        count = context.count(text)
        if count == 1:
            self._moved.append(self._name(row))
            return text, context.index(text)
        if count == 0 and start < 0:
            self._nowhere.append(self._name(row))
            return text, NOWHERE
        raise ValueError(
            f"the answer {text!r:.60} is not at {start} in its context, but there {count} times"
        )

    def _name(self, row: int) -> str:
        return "" if self._ids is None else f"{self._ids[row]}: "

    def _tell(self, names: list[str], what: str) -> None:
        if names:
            first = f" (the first: {names[0].rstrip(': ')})" if names[0] else ""
            logger.warning("%s: %d answers %s%s.", self._table.source, len(names), what, first)


def _answers(cell: Any) -> Iterator[tuple[str, int]]:
    """Read a list of answers, or SQuAD's columns in one object, as text and start."""
    if cell is None:
        return
    items = cell if isinstance(cell, list) else [cell]
    for item in items:
        if not isinstance(item, dict) or not {"text", "answer_start"} <= item.keys():
            raise ValueError("an answer is no object with 'text' and 'answer_start'")
        texts, starts = item["text"], item["answer_start"]
        if not isinstance(texts, list):
            texts, starts = [texts], [starts]
        if not isinstance(starts, list) or len(texts) != len(starts):
            raise ValueError("the answers have not as many starts as texts")
        for text, start in zip(texts, starts, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"the answer's text is {text!r:.40}; without answer, give none")
            if not isinstance(start, int) or isinstance(start, bool):
                raise ValueError(f"the answer's start is {start!r:.40}, not a whole number")
            yield text, start


def _trainable(split: Split) -> Split:
    """Leave out the questions whose answers are all nowhere in their context."""
    labels: list[Any] | None = split.labels
    if labels is None:
        return split
    kept = [
        row
        for row, answers in enumerate(labels)
        if not answers or any(start != NOWHERE for _, start in answers)
    ]
    if len(kept) == len(split):
        return split
    if not kept:
        raise DataError(f"{split.source} has no answer that is in its context.")
    logger.warning(
        "%s: %d of %d questions are not trained on; no answer of theirs is in its context.",
        *(split.source, len(split) - len(kept), len(split)),
    )
    return take(split, np.array(kept, dtype=np.int64), name=split.name, source=split.source)
