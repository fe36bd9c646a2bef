"""A split as the rows that a model runs: texts, pairs, windows, prompts with their choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compress.data import Split
from compress.encoding import EncodedTexts, RowArray, encode_texts, pack_encodings
from compress.task_head import TaskHead
from edgebert.errors import DataError
from edgebert.tokenizer import Encoding, Tokenizer
from edgebert.types import IntArray


@dataclass(frozen=True, eq=False)
class TaskRows:
    """What a model runs for the examples of a split, one row after the other.

    Attributes:
        encoded: One entry a row: a text, a pair, a window of a long text, or a prompt with one of
            its choices.
        owners: Which example of the split a row belongs to, int64 ``[rows]``; never decreasing.
        encodings: One a row, with what ties a token to its characters; None for tasks that look at
            no token.
    """

    encoded: EncodedTexts
    owners: IntArray
    encodings: list[Encoding] | None = None

    def __len__(self) -> int:
        return len(self.encoded)

    @property
    def starts(self) -> IntArray:
        """Place of each row's first token among the tokens of all rows, int64 ``[rows + 1]``."""
        return np.concatenate([[0], np.cumsum(self.encoded.lengths)]).astype(np.int64)

    def rows_of(self, examples: Sequence[int] | RowArray) -> RowArray:
        """Give the rows of some examples, example by example, int64 ``[n]``.

        With `multiple-choice` it makes a batch of whole questions.
        """
        chosen = np.asarray(examples, np.int64)
        first = np.searchsorted(self.owners, chosen, side="left")
        last = np.searchsorted(self.owners, chosen, side="right")
        parts = [np.arange(at, end) for at, end in zip(first, last, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def make_rows(
    split: Split,
    head: TaskHead,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    stride: int | None = None,
) -> TaskRows:
    """Encode a split for a task, as the bundle will encode it.

    Args:
        split: Not empty.
        head: Of the task.
        tokenizer: The bundle's.
        max_length: Longest row in tokens, special tokens included.
        stride: Tokens that neighbouring windows of a text share, where the task looks at windows;
            None for a quarter of ``max_length``.

    Returns:
        For ``feature-extraction`` of pairs two rows an example, its first and its second text.

    Raises:
        DataError: The split has no choices though the task needs them.
    """
    if head.per_token:
        return _token_rows(split, tokenizer, max_length=max_length, stride=stride)
    texts, pairs = split.texts, split.text_pairs
    owners = np.arange(len(split), dtype=np.int64)
    if head.task == "multiple-choice":
        if split.choices is None:
            raise DataError(f"{split.source} has no choices; give a column 'choices'.")
        owners = np.repeat(owners, [len(choices) for choices in split.choices])
        texts = [texts[owner] for owner in owners]
        pairs = [choice for choices in split.choices for choice in choices]
    elif head.task == "feature-extraction" and pairs is not None:
        owners = np.repeat(owners, 2)
        texts = [text for pair in zip(texts, pairs, strict=True) for text in pair]
        pairs = None
    encoded = encode_texts(tokenizer, texts, pairs, max_length=max_length)
    return TaskRows(encoded, owners)


def _token_rows(
    split: Split,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    stride: int | None,  # noqa: ARG001
) -> TaskRows:
    encodings = tokenizer.encode(split.texts, split.text_pairs, max_length=max_length)
    owners = np.arange(len(split), dtype=np.int64)
    return TaskRows(pack_encodings(encodings), owners, encodings)


def context_tokens(encoding: Encoding) -> slice:
    """Find the tokens of a pair's second text, which stand beside each other."""
    context = np.flatnonzero(encoding.text_ids == 1)
    return slice(int(context[0]), int(context[-1]) + 1) if context.size else slice(0, 0)
