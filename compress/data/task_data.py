"""The parts of a run's data as they are used: checked rows, and a hash of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compress.data.columns import Labels

T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """One part of the data, as it is used.

    Attributes:
        name: ``train``, ``dev`` or ``test``.
        source: Where it came from: a path, a data set, or the split that it was cut from.
        texts: Never empty ones.
        text_pairs: Second texts of pairs, or None.
        labels: Names; for multi-label tuples of names; scores of a regression or of pairs; one tag
            a word, as a tuple; the true answers with where they start in the context, none for a
            question without one; the number of the right choice; or None.
        sha256: Of texts, pairs, labels, words and choices in their order.
        word_spans: Where each word of a text starts and ends, in characters; or None.
        choices: Texts to choose from; or None.
        ids: Name of each row in its file, as of a question; or None.
    """

    name: str
    source: str
    texts: list[str]
    text_pairs: list[str] | None
    labels: Labels | None
    sha256: str
    word_spans: list[list[tuple[int, int]]] | None = None
    choices: list[tuple[str, ...]] | None = None
    ids: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class TaskData:
    """What a step trains on, chooses by, and reports.

    Attributes:
        train: Training rows.
        dev: Rows to choose by, given or cut from train.
        test: Rows that are read once, at the end; or None.
        labels: Label names in the order of the logits: by number if all are integers, else by
            name. Empty for a task without labels.
        problem_type: Of a text-classification, else None.
        augmented: Changed copies of train rows, without labels; or None.
    """

    train: Split
    dev: Split
    test: Split | None
    labels: tuple[str, ...]
    problem_type: str | None
    augmented: Split | None = None

    @property
    def no_answer(self) -> bool:
        """Whether a question of the training rows has no answer, as in SQuAD 2.0."""
        questions = self.problem_type is None  # else it may be a text without any class
        return questions and any(answers == () for answers in self.train.labels or [])


def make_split(
    name: str,
    source: str,
    texts: list[str],
    *,
    text_pairs: list[str] | None = None,
    labels: Labels | None = None,
    word_spans: list[list[tuple[int, int]]] | None = None,
    choices: list[tuple[str, ...]] | None = None,
    ids: list[str] | None = None,
) -> Split:
    """Build a split of one's own data; its hash is computed here."""
    digest = hashlib.sha256()
    columns: list[Sequence[object]] = [texts]
    columns += [column or [None] * len(texts) for column in (text_pairs, labels)]
    columns += [column for column in (word_spans, choices) if column is not None]
    for row in zip(*columns, strict=True):
        digest.update(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return Split(
        name,
        source,
        texts,
        text_pairs,
        labels,
        digest.hexdigest(),
        word_spans=word_spans,
        choices=choices,
        ids=ids,
    )


def take(split: Split, rows: npt.NDArray[np.int64], *, name: str, source: str) -> Split:
    """Make a split of some rows of another, in the order of ``rows``, int64 ``[n]``."""
    chosen = rows.tolist()

    def of(column: list[T] | None) -> list[T] | None:
        return [column[row] for row in chosen] if column else None

    labels: list[Any] | None = split.labels
    return make_split(
        name,
        source,
        of(split.texts) or [],
        text_pairs=of(split.text_pairs),
        labels=of(labels),
        word_spans=of(split.word_spans),
        choices=of(split.choices),
        ids=of(split.ids),
    )


def label_order(names: set[str]) -> tuple[str, ...]:
    """Order label names: as numbers if all are integers, else as text."""
    if all(name.removeprefix("-").isdecimal() for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))
