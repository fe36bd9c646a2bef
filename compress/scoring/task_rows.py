"""A split as the rows that a model runs: texts, pairs, windows, prompts with their choices."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compress.data.encoding import (
    EncodedTexts,
    RowArray,
    encode_texts,
    join_encoded,
    pack_encodings,
)
from compress.data.load import Split
from compress.models.task_head import TaskHead
from edgebert.errors import DataError
from edgebert.text.tokenizer import Encoding, Tokenizer
from edgebert.text.windows import Window, cut_windows
from edgebert.types import IntArray

logger = logging.getLogger(__name__)

_CHUNK_TEXTS = 256  # bounds what the tokenizer's own objects take, 400 bytes a token


@dataclass(frozen=True, eq=False)
class TextTokens:
    """What ties the tokens of a whole text, or of a whole pair, to its characters.

    Small on purpose, nine bytes a token: SQuAD has fifteen million.

    Attributes:
        offsets: Start and end of each token in characters of its text, int32 ``[seq, 2]``.
        text_ids: Which text a token is of: 0, 1 for the second, -1 for a special token, int8
            ``[seq]``.
    """

    offsets: npt.NDArray[np.int32]
    text_ids: npt.NDArray[np.int8]

    @classmethod
    def of(cls, encoding: Encoding) -> TextTokens:
        """Keep what counts of an encoding."""
        offsets = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
        return cls(offsets, encoding.text_ids.astype(np.int8))

    def __len__(self) -> int:
        return len(self.text_ids)


@dataclass(frozen=True, eq=False)
class RowTokens:
    """Which tokens of its text a row is made of.

    Attributes:
        positions: Where each is in the whole text, rising, int32 ``[seq]``.
        best: Whether no other row has more context on both sides of it, bool ``[seq]``.
    """

    positions: npt.NDArray[np.int32]
    best: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TaskRows:
    """What a model runs for the examples of a split, one row after the other.

    Attributes:
        encoded: One entry a row: a text, a pair, a window of a long text, or a prompt with one of
            its choices.
        owners: Which example of the split a row belongs to, int64 ``[rows]``; never decreasing.
        texts: Each example as a whole, with what ties a token to its characters; None for tasks
            that look at no token.
        windows: What part of its text each row is; None for tasks that look at no token.
    """

    encoded: EncodedTexts
    owners: IntArray
    texts: list[TextTokens] | None = None
    windows: list[RowTokens] | None = None

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
        InputError: What every window of an example keeps, like a question, fills ``max_length``.
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


def take_rows(rows: TaskRows, chosen: RowArray) -> TaskRows:
    """Keep some rows, int64 ``[n]``, rising; what belongs to examples stays as it is."""
    encoded = EncodedTexts(
        [rows.encoded.input_ids[row] for row in chosen],
        [rows.encoded.token_type_ids[row] for row in chosen],
        rows.encoded.sha256,
    )
    windows = None if rows.windows is None else [rows.windows[row] for row in chosen]
    return TaskRows(encoded, rows.owners[chosen], rows.texts, windows)


def _token_rows(
    split: Split, tokenizer: Tokenizer, *, max_length: int, stride: int | None
) -> TaskRows:
    """Cut each text, of a pair the second one, so that every token is in a row."""
    texts: list[TextTokens] = []
    windows: list[RowTokens] = []
    owners: list[int] = []
    parts: list[EncodedTexts] = []
    for start in range(0, len(split), _CHUNK_TEXTS):
        part = slice(start, start + _CHUNK_TEXTS)
        pairs = None if split.text_pairs is None else split.text_pairs[part]
        found: list[Window] = []
        for text in tokenizer.encode(split.texts[part], pairs, max_length=None):
            cut = cut_windows(
                text,
                max_length=max_length,
                stride=stride,
                side=0 if pairs is None else 1,
                name=_name(split, len(texts)),
            )
            owners += [len(texts)] * len(cut)
            texts.append(TextTokens.of(text))
            found += cut
        windows += [RowTokens(one.positions.astype(np.int32), one.best) for one in found]
        parts.append(pack_encodings([one.encoding for one in found]))
    if len(windows) > len(texts):
        logger.info("%s: %d texts give %d windows.", split.source, len(texts), len(windows))
    return TaskRows(join_encoded(parts), np.array(owners, dtype=np.int64), texts, windows)


def _name(split: Split, example: int) -> str:
    one = f"Row {example + 1}" if split.ids is None else split.ids[example]
    return f"{one} of {split.source}"
