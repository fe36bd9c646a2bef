"""True labels of a split's rows as the tensors that losses take."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from compress.data.answered import NOWHERE
from compress.data.encoding import RowArray
from compress.data.load import Split
from compress.models.task_head import TaskHead
from compress.scoring.metrics import MULTI_LABEL, label_ids, label_matrix
from compress.scoring.task_rows import RowTokens, TaskRows, TextTokens
from edgebert.errors import DataError
from edgebert.types import IntArray

logger = logging.getLogger(__name__)

TagArray: TypeAlias = npt.NDArray[np.int16]

IGNORED = -100  # what torch's cross entropy leaves out


@dataclass(frozen=True, eq=False)
class Targets:
    """The true labels of a `TaskRows`.

    Attributes:
        values: A row's target, or for ``multiple-choice`` a question's: int64 ``[n]``, float32
            ``[n]`` for a regression, float32 ``[n, C]`` for multi-label, int64 ``[n, 2]`` for the
            first and last token of an answer (see `batch`); None for tags.
        tags: Places in the labels of each row's tokens, int16 ``[seq]`` a row; else None.
        owners: For ``multiple-choice``: question of each row, int64 ``[rows]``; else None.
    """

    values: Tensor | None = None
    tags: list[TagArray] | None = None
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
            the answer, -100 twice where no window of its question holds it whole;
            ``multiple-choice``: int64 ``[Q]``.
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


def _tag_ids(rows: TaskRows, split: Split, labels: Sequence[str]) -> list[TagArray]:
    """Give each row's tokens the tag of the word that they are the first of, else -100."""
    places = {label: place for place, label in enumerate(labels)}
    tags: list[Any] = split.labels or []
    unknown = sorted({tag for one in tags for tag in one} - places.keys())
    if unknown:
        raise DataError(f"Tags {', '.join(unknown)} are not among {', '.join(labels)}.")
    texts, windows = _parts(rows, split)
    whole = []
    for text, one, first in zip(texts, tags, word_tokens(rows, split), strict=True):
        ids = np.full(len(text), IGNORED, np.int16)
        known = first >= 0
        ids[first[known]] = np.array([places[tag] for tag in one], dtype=np.int16)[known]
        whole.append(ids)
    return [
        whole[owner][window.positions]
        for owner, window in zip(rows.owners.tolist(), windows, strict=True)
    ]


def word_tokens(rows: TaskRows, split: Split) -> list[IntArray]:
    """Find the first token of each word.

    Args:
        rows: Of ``make_rows`` for ``token-classification``.
        split: The same split, with ``word_spans``.

    Returns:
        For each example, int64 ``[words]`` of places in its whole encoding; -1 for a word of which
        the tokenizer leaves nothing.
    """
    texts, _ = _parts(rows, split)
    if split.word_spans is None:
        raise DataError(f"{split.source} has no words; give a CoNLL file or a column 'tokens'.")
    return [_first_tokens(text, spans) for text, spans in zip(texts, split.word_spans, strict=True)]


def _first_tokens(text: TextTokens, spans: Sequence[tuple[int, int]]) -> IntArray:
    first = np.full(len(spans), -1, np.int64)
    word = 0
    for token, (start, end) in enumerate(text.offsets.tolist()):
        if start >= end:  # a special token too
            continue
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        if word < len(spans) and spans[word][0] < end:
            first[word] = token
            word += 1  # its other tokens end before the next word starts
    return first


def _answer_places(rows: TaskRows, split: Split) -> IntArray:
    """Find the first answer's tokens in each row, int64 ``[rows, 2]``; 0 where it isn't whole.

    Where none of its rows holds it whole they are ignored: they would teach that there is none.
    """
    texts, windows = _parts(rows, split)
    answers: list[Any] = split.labels or []
    whole = [_first_answer(text, one) for text, one in zip(texts, answers, strict=True)]
    places = np.zeros((len(rows), 2), np.int64)
    for row, (owner, window) in enumerate(zip(rows.owners.tolist(), windows, strict=True)):
        found = np.flatnonzero(np.isin(window.positions, whole[owner] or ()))
        if found.size and (window.positions[found[[0, -1]]] == whole[owner]).all():
            places[row] = found[[0, -1]]
    answered = {example for example, one in enumerate(answers) if one}
    missed = answered - set(rows.owners[places[:, 1] > 0].tolist())
    if missed:
        places[np.isin(rows.owners, list(missed))] = IGNORED
        logger.warning(
            "%s: %d of %d answers are whole in no window of %d tokens; nothing true is taught on "
            "their questions. Raise --max-length or --doc-stride.",
            *(split.source, len(missed), len(answered), rows.encoded.lengths.max()),
        )
    return places


def _first_answer(text: TextTokens, answers: Sequence[tuple[str, int]]) -> tuple[int, int] | None:
    """Find the tokens of the first answer that has a place; see `compress.data.answered`."""
    for answer, start in answers:
        if start != NOWHERE:
            return answer_tokens(text, start, start + len(answer))
    return None


def answer_tokens(text: TextTokens, start: int, end: int) -> tuple[int, int] | None:
    """Find the tokens that cover characters of a context.

    Args:
        text: A question and its whole context.
        start: First character of the answer, in the context.
        end: Behind its last one.

    Returns:
        First and last token, or None where the tokenizer leaves nothing of the answer.
    """
    first, last = text.offsets[:, 0], text.offsets[:, 1]
    within = (text.text_ids == 1) & (first < last) & (first < end) & (last > start)
    inside = np.flatnonzero(within)
    return (int(inside[0]), int(inside[-1])) if inside.size else None


def _parts(rows: TaskRows, split: Split) -> tuple[list[TextTokens], list[RowTokens]]:
    if rows.texts is None or rows.windows is None:
        raise DataError(f"The rows of {split.source} have no tokens; they are of another task.")
    return rows.texts, rows.windows
