"""True labels of a split's rows as the tensors that losses take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compress.data import Split
from compress.encoding import RowArray
from compress.metrics import MULTI_LABEL, label_ids, label_matrix
from compress.task_head import TaskHead
from compress.task_rows import TaskRows, context_tokens
from edgebert.errors import DataError
from edgebert.tokenizer import Encoding
from edgebert.types import IntArray

IGNORED = -100  # what torch's cross entropy leaves out


@dataclass(frozen=True, eq=False)
class Targets:
    """The true labels of a `TaskRows`.

    Attributes:
        values: A row's target, or for ``multiple-choice`` a question's: int64 ``[n]``, float32
            ``[n]`` for a regression, float32 ``[n, C]`` for multi-label, int64 ``[n, 2]`` for the
            first and last token of an answer; None for tags.
        tags: Places in the labels of each row's tokens, int64 ``[seq]`` a row; else None.
        owners: For ``multiple-choice``: question of each row, int64 ``[rows]``; else None.
    """

    values: Tensor | None = None
    tags: list[IntArray] | None = None
    owners: IntArray | None = None

    def batch(self, rows: RowArray, length: int, *, device: torch.device | str = "cpu") -> Tensor:
        """Give the targets of some rows.

        Args:
            rows: Their numbers, int64 ``[B]``; for ``multiple-choice`` all rows of whole questions,
                each question's beside each other.
            length: Tokens of the padded batch, ``S``.
            device: Where the tensor goes.

        Returns:
            ``text-classification``: int64 ``[B]``, or multi-label float32 ``[B, C]``;
            ``regression``: float32 ``[B]``; ``token-classification``: int64 ``[B, S]``, -100 where
            no word starts; ``question-answering``: int64 ``[B, 2]``, 0 and 0 for a window without
            the answer; ``multiple-choice``: int64 ``[Q]``.
        """
        if self.tags is not None:
            padded = np.full((len(rows), length), IGNORED, np.int64)
            for place, row in enumerate(rows):
                padded[place, : len(self.tags[row])] = self.tags[row]
            return torch.from_numpy(padded).to(device)
        chosen = np.asarray(rows, np.int64)
        if self.owners is not None:
            owners = self.owners[chosen]
            chosen = owners[np.flatnonzero(np.diff(owners, prepend=-1))]
        if self.values is None:
            raise DataError("There are no labels to train on.")
        return self.values[torch.from_numpy(chosen)].to(device)


def make_targets(rows: TaskRows, split: Split, head: TaskHead) -> Targets:
    """Turn the labels of a split into targets of its rows.

    Args:
        rows: Of ``make_rows``.
        split: The same split, with labels.
        head: Of the task; its labels name the classes or tags.

    Raises:
        DataError: The split has no labels, or one that the head lacks; or the task has none.
    """
    if split.labels is None:
        raise DataError(f"{split.source} has no labels; give --label-column.")
    if head.task == "text-classification":
        if head.problem_type == MULTI_LABEL:
            return Targets(torch.from_numpy(label_matrix(split.labels, head.labels)).float())
        return Targets(torch.from_numpy(label_ids(split.labels, head.labels)))
    if head.task == "regression":
        return Targets(torch.tensor(split.labels, dtype=torch.float32))
    if head.task == "multiple-choice":
        return Targets(torch.tensor(split.labels, dtype=torch.long), owners=rows.owners)
    if head.task == "token-classification":
        return Targets(tags=_tag_ids(rows, split, head.labels))
    if head.task == "question-answering":
        return Targets(torch.from_numpy(_answer_places(rows, split)))
    raise DataError(f"{head.task} has no true labels.")


def _tag_ids(rows: TaskRows, split: Split, labels: Sequence[str]) -> list[IntArray]:
    """Give each row's tokens the tag of the word that they are the first of, else -100."""
    places = {label: place for place, label in enumerate(labels)}
    found = []
    for row, words in enumerate(word_tokens(rows, split)):
        owner = int(rows.owners[row])
        tags = (split.labels or [])[owner]
        unknown = sorted({str(tag) for tag in _several(tags)} - places.keys())
        if unknown:
            raise DataError(f"Tags {', '.join(unknown)} are not among {', '.join(labels)}.")
        ids = np.full(int(rows.encoded.lengths[row]), IGNORED, np.int64)
        for word, token in words:
            ids[token] = places[_several(tags)[word]]
        found.append(ids)
    return found


def _several(tags: object) -> tuple[str, ...]:
    return tags if isinstance(tags, tuple) else (str(tags),)


def word_tokens(rows: TaskRows, split: Split) -> list[list[tuple[int, int]]]:
    """Find each word's first token in every row that has it.

    Args:
        rows: Of ``make_rows`` for ``token-classification``.
        split: The same split, with ``word_spans``.

    Returns:
        For each row, pairs of word and token, rising. A word of characters that the tokenizer
        drops has no token.
    """
    encodings, spans = rows.encodings, split.word_spans
    if encodings is None or spans is None:
        raise DataError(f"{split.source} has no words; give a CoNLL file or a column 'tokens'.")
    touched = [
        _touched(encoding, spans[int(owner)])
        for encoding, owner in zip(encodings, rows.owners, strict=True)
    ]
    first: dict[tuple[int, int], int] = {}  # of a word, its first token's start
    for owner, found in zip(rows.owners.tolist(), touched, strict=True):
        for word, _, start in found:
            first[owner, word] = min(start, first.get((owner, word), start))
    return [
        [(word, token) for word, token, start in found if start == first[owner, word]]
        for owner, found in zip(rows.owners.tolist(), touched, strict=True)
    ]


def _touched(encoding: Encoding, spans: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Give each word's first token in one row as word, token, start of the token."""
    found: list[tuple[int, int, int]] = []
    word = 0
    for token, (start, end) in enumerate(encoding.offsets):
        if encoding.special_tokens_mask[token] or start >= end:
            continue
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        if word < len(spans) and spans[word][0] < end:
            found.append((word, token, start))
            word += 1  # its other tokens start before the next word does
    return found


def _answer_places(rows: TaskRows, split: Split) -> IntArray:
    """Find the first answer's tokens in each row, int64 ``[rows, 2]``; 0 where it isn't whole."""
    if rows.encodings is None:
        raise DataError("Answers need encodings with offsets; make the rows with make_rows.")
    places = np.zeros((len(rows), 2), np.int64)
    for row, (encoding, owner) in enumerate(zip(rows.encodings, rows.owners, strict=True)):
        answers = _several_answers((split.labels or [])[int(owner)])
        if answers:
            text, start = answers[0]
            places[row] = answer_tokens(encoding, start, start + len(text))
    return places


def _several_answers(label: object) -> tuple[tuple[str, int], ...]:
    return label if isinstance(label, tuple) else ()


def answer_tokens(encoding: Encoding, start: int, end: int) -> tuple[int, int]:
    """Find the tokens that cover characters of the context.

    Args:
        encoding: A question and a window of its context.
        start: First character of the answer, in the context.
        end: Behind its last one.

    Returns:
        First and last token; ``(0, 0)`` if the window lacks a part of the answer.
    """
    window = context_tokens(encoding)
    offsets = encoding.offsets[window]
    if not offsets or offsets[0][0] > start or offsets[-1][1] < end:
        return 0, 0
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start and a < b]
    if not inside:
        return 0, 0
    return window.start + inside[0], window.start + inside[-1]
