"""Long texts as windows that a model can take, and their results put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from edgebert.errors import InputError
from edgebert.text.tokenizer import Encoding
from edgebert.types import FloatArray, IntArray

_SHARED_PART = 4  # neighbours share a quarter of max_length by default


@dataclass(frozen=True, eq=False)
class Window:
    """A part of a text, or of one text of a pair, with every special token and the other text.

    Attributes:
        encoding: What the model runs, at most ``max_length`` tokens.
        positions: Where each of its tokens is in the full encoding, rising, int64 ``[seq]``.
        best: Whether no other window has more context on both sides of the token, bool ``[seq]``.
            Every token of the full encoding is the best one in exactly one window; special tokens
            and those of the other text, which all windows have, in the first.
        weight: How many tokens of the text that was cut are the best ones here.
        shared: How many of them it shares with the window before it.
    """

    encoding: Encoding
    positions: IntArray
    best: npt.NDArray[np.bool_]
    weight: int
    shared: int = 0

    @classmethod
    def whole(cls, encoding: Encoding) -> Window:
        """Make the only window of a text that needs no cut."""
        count = len(encoding)
        real = int((encoding.text_ids >= 0).sum())
        return cls(encoding, np.arange(count), np.ones(count, dtype=np.bool_), real)


def cut_windows(
    encoding: Encoding,
    *,
    max_length: int,
    stride: int | None = None,
    side: int | None = None,
    prompt: int = 0,
    name: str = "The text",
) -> list[Window]:
    """Cut a text, or one text of a pair, so that every token is in one window or more.

    Args:
        encoding: Of the full text, not truncated.
        max_length: Longest window, special tokens and the other text included.
        stride: Tokens that neighbours share; None for a quarter of ``max_length``. Half the room
            that a window has for the text where that is less than the stride and a token.
        side: Which text of a pair is cut, 0 or 1; None for the longer one.
        prompt: How many characters at its start every window keeps.
        name: What an error calls the text.

    Returns:
        The windows in the order of the text; one that holds all where nothing is too long.

    Raises:
        InputError: What every window keeps fills ``max_length``, or ``stride`` is below 0, which
            would leave tokens out.
    """
    if stride is not None and stride < 0:
        raise InputError(f"stride is {stride}; it must be 0 or more tokens.")
    if len(encoding) <= max_length:
        return [Window.whole(encoding)]
    cut, kept = _split(encoding, side, prompt)
    room = max_length - len(kept)
    if room < 1:
        raise InputError(
            f"{name} can't be cut into windows of {max_length} tokens: the {len(kept)} tokens that "
            "each has to keep (special tokens, a prompt, the other text of a pair) leave no room. "
            "Shorten the other text, raise max_length where the model allows it, or give "
            "on_long='truncate'."
        )
    stride = max_length // _SHARED_PART if stride is None else stride
    shared = stride if stride < room else room // 2
    starts = range(0, len(cut) - shared, room - shared)
    owners = _most_context(len(cut), starts, room)
    windows = []
    for number, start in enumerate(starts):
        mine = slice(start, start + room)
        places = np.concatenate([kept, cut[mine]])
        best = np.concatenate([np.full(len(kept), number == 0), owners[mine] == number])
        order = np.argsort(places)
        part = encoding.take(places[order], dropped_tokens=0)
        weight = int((owners == number).sum())
        overlap = shared if number else 0
        windows.append(Window(part, places[order], best[order], weight, overlap))
    return windows


def merge_token_values(windows: Sequence[Window], values: Sequence[FloatArray]) -> FloatArray:
    """Give each token of the full text its value of the window where it has the most context.

    Args:
        windows: All windows of a text.
        values: One array a window, ``[seq or more, ...]``; what is behind ``seq`` is padding.

    Returns:
        ``[tokens of the full text, ...]``.
    """
    total = sum(int(window.best.sum()) for window in windows)
    merged = np.empty((total, *values[0].shape[1:]), dtype=values[0].dtype)
    for window, found in zip(windows, values, strict=True):
        merged[window.positions[window.best]] = found[: len(window.best)][window.best]
    return merged


@dataclass(frozen=True, eq=False)
class WindowedTexts:
    """Texts as the rows that a model runs: one row a text, or one row a window of it.

    Attributes:
        texts: Each text as a whole, or what truncation left of it.
        windows: Those of each text, one or more.
    """

    texts: list[Encoding]
    windows: list[list[Window]]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def rows(self) -> list[Encoding]:
        """Every window, text by text."""
        return [window.encoding for windows in self.windows for window in windows]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """The text of each row, and which of its windows it is."""
        return [(i, k) for i, windows in enumerate(self.windows) for k in range(len(windows))]

    @property
    def dropped_tokens(self) -> IntArray:
        """How many tokens of each text were cut off, int64 ``[n]``; 0 with windows."""
        return np.array([text.dropped_tokens for text in self.texts], dtype=np.int64)

    def mean(self, values: FloatArray) -> FloatArray:
        """Average the rows of each text, a window counted by the tokens that are its own.

        A token that two windows share counts once, where it has the most context.

        Args:
            values: float32 ``[rows, width]``.

        Returns:
            float32 ``[n, width]``; a text of one window has that row as it is.
        """
        if len(self.rows) == len(self.texts):
            return values
        parts = np.concatenate([_fractions(windows) for windows in self.windows])  # [rows]
        firsts = np.cumsum([0, *map(len, self.windows[:-1])])
        return np.add.reduceat(values * parts[:, None], firsts, axis=0)


@dataclass(frozen=True, eq=False)
class TokenOutputs:
    """What a model gives for each token of one text.

    Attributes:
        text: The text as a whole, or what truncation left of it.
        windows: Its windows, one or more.
        values: The outputs by name for each window, float32 ``[seq, ...]``.
    """

    text: Encoding
    windows: list[Window]
    values: list[dict[str, FloatArray]]

    def merged(self, output: str) -> FloatArray:
        """Give one value a token of `text`, float32 ``[tokens, ...]``; see `merge_token_values`."""
        return merge_token_values(self.windows, [values[output] for values in self.values])


def _fractions(windows: Sequence[Window]) -> FloatArray:
    weights = np.array([window.weight for window in windows], dtype=np.float32)
    return weights / weights.sum() if len(windows) > 1 else np.ones(1, dtype=np.float32)


def _split(encoding: Encoding, side: int | None, prompt: int) -> tuple[IntArray, IntArray]:
    """Give the places of the tokens that are shared out, and of those that every window keeps."""
    if side is None:
        side = int((encoding.text_ids == 1).sum() > (encoding.text_ids == 0).sum())
    ends = np.array([end for _, end in encoding.offsets])
    cut = np.flatnonzero((encoding.text_ids == side) & ((ends > prompt) | (prompt == 0)))
    kept = np.ones(len(encoding), dtype=np.bool_)
    kept[cut] = False
    return cut, np.flatnonzero(kept)


def _most_context(count: int, starts: Sequence[int], room: int) -> IntArray:
    """Say in which window each token is farthest from a cut, int64 ``[count]``; first on a tie."""
    owners = np.zeros(count, dtype=np.int64)
    farthest = np.full(count, -1, dtype=np.int64)
    for number, start in enumerate(starts):
        end = min(start + room, count)
        inside = np.arange(start, end)
        left = inside - start if start > 0 else count  # the text's own border is no cut
        right = end - 1 - inside if end < count else count
        nearest_cut = np.minimum(left, right)
        better = nearest_cut > farthest[start:end]
        owners[start:end][better] = number
        farthest[start:end][better] = nearest_cut[better]
    return owners
