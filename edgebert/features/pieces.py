"""A row's text as entries: whole, in windows, or token by token."""

from __future__ import annotations

from collections.abc import Sequence

from edgebert.features.entries import Entry, entry_id
from edgebert.features.rows import Row
from edgebert.text.tokenizer import Encoding
from edgebert.text.windows import Window


def entries_of(row: Row, spans: Sequence[tuple[int, int]]) -> list[Entry]:
    """Make an entry of each stretch of a row's text, given by its start and end in characters."""
    key = row.place if row.key is None else row.key
    return [
        Entry(
            id=entry_id(key, chunk, row.text[start:end]),
            key=key,
            chunk=chunk,
            start=start,
            end=end,
            text=row.text[start:end],
            metadata=row.metadata,
        )
        for chunk, (start, end) in enumerate(spans)
    ]


def spans_of(windows: Sequence[Window], prompt: int, length: int) -> list[tuple[int, int]]:
    """Give where each window begins and ends in a text.

    Args:
        windows: Of the text with its prompt.
        prompt: Characters of the prompt.
        length: Characters of the text, without it.

    Returns:
        Starts and ends in characters of the text. The first window begins with it and the last one
        ends with it, so that nothing is left out there.
    """
    found = [_span(window.encoding, prompt) for window in windows]
    starts = [0, *(start for start, _ in found[1:])]
    ends = [*(end for _, end in found[:-1]), length]
    return list(zip(starts, ends, strict=True))


def _span(encoding: Encoding, prompt: int) -> tuple[int, int]:
    own = [
        (start, end)
        for (start, end), text in zip(encoding.offsets, encoding.text_ids, strict=True)
        if text >= 0 and (end > prompt or not prompt)
    ]
    first, last = min(start for start, _ in own), max(end for _, end in own)
    return max(0, first - prompt), last - prompt
