"""Exact offsets for SentencePiece vocabularies, where the tokenizer's own can be off.

Their normalizer (a table of replacements) drops some characters, like controls, and turns some
into several, like a ligature into its letters. The library then can lose count, and gives the
tokens that follow the offsets of their neighbours. So a text with such a character is normalized
here, with the place of each result remembered, and its offsets are taken from there.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import tokenizers
from tokenizers.normalizers import Precompiled, Sequence

Span = tuple[int, int]

_JOINED = ("Mn", "Me", "Mc", "Cf")  # categories that belong to the character before them


class ExactOffsets:
    """Finds the texts whose offsets can't be trusted, and gives right ones."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Look whether the tokenizer normalizes by a table at all; if not, nothing is ever done."""
        self._tokenizer = tokenizer
        self._table = _table_of(tokenizer.normalizer)
        self._known: set[str] = set()
        self._uneven: set[str] = set()
        self._plain: tokenizers.Tokenizer | None = None

    def needed(self, text: str) -> bool:
        """Tell whether a text has a character that is dropped, or becomes several."""
        table = self._table
        if table is None:
            return False
        new = set(text) - self._known
        if new:
            # first the uneven: another thread must not find one known and not yet uneven
            self._uneven |= {c for c in new if len(table.normalize_str(c)) != 1}
            self._known |= new
        return not self._uneven.isdisjoint(text)

    def spans(self, texts: tuple[str, ...], ids: list[int]) -> list[Span] | None:
        """Give each token's place in its text.

        Args:
            texts: One text, or the two of a pair.
            ids: What the tokenizer gave for them.

        Returns:
            One ``(start, end)`` a token, ``(0, 0)`` for a special one; or None where this way
            doesn't lead to the same ids.
        """
        aligned = [_normalize(text, self._table) for text in texts]
        normal = [text for text, _ in aligned]
        found = self._without_table().encode(normal[0], normal[1] if len(normal) > 1 else None)
        if found.ids != ids:
            return None
        spans = []
        for which, (start, end) in zip(found.sequence_ids, found.offsets, strict=True):
            places = [] if which is None else aligned[which][1]
            if not places:
                spans.append((0, 0))
            elif start == end:
                at = places[start][0] if start < len(places) else places[-1][1]
                spans.append((at, at))
            else:
                spans.append((places[start][0], places[end - 1][1]))
        return spans

    def _without_table(self) -> tokenizers.Tokenizer:
        """Give a second tokenizer, for texts that went through the table."""
        if self._plain is None:
            state = json.loads(self._tokenizer.to_str())
            rest = state["normalizer"].get("normalizers", [None])[1:]
            state["normalizer"] = {"type": "Sequence", "normalizers": rest}
            plain = tokenizers.Tokenizer.from_str(json.dumps(state))
            plain.encode_special_tokens = True
            self._plain = plain  # made twice when two threads come at once, which does no harm
        return self._plain


def _table_of(normalizer: Any) -> Any:
    """Give the table that a normalizer is or begins with, or None."""
    if isinstance(normalizer, Sequence):
        try:
            normalizer = normalizer[0]
        except IndexError:
            return None
    return normalizer if isinstance(normalizer, Precompiled) else None


def _normalize(text: str, table: Any) -> tuple[str, list[Span]]:
    """Normalize a text, and tell for each character of the result which ones it came from."""
    parts: list[str] = []
    places: list[Span] = []
    for start, cluster in _clusters(text):
        result = table.normalize_str(cluster)
        parts.append(result)
        places += [(start + a, start + b) for a, b in _places(cluster, result, table)]
    return "".join(parts), places


def _places(cluster: str, result: str, table: Any) -> list[Span]:
    """Align a cluster with its result: char by char, or by what its beginnings give."""
    alone = [table.normalize_str(char) for char in cluster]
    if "".join(alone) == result:
        return [(at, at + 1) for at, made in enumerate(alone) for _ in made]
    spans: list[Span] = []
    before = ""
    for end in range(1, len(cluster) + 1):
        now = table.normalize_str(cluster[:end])
        same = _agreeing(before, now)
        # what has changed, as by an accent, comes of all characters since it first stood there
        start = spans[same][0] if same < len(before) else end - 1
        spans[same:] = [(start, end)] * (len(now) - same)
        before = now
    return spans


def _agreeing(a: str, b: str) -> int:
    """Count the characters at the start that two texts share."""
    both = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(both) if x != y), min(len(a), len(b)))


def _clusters(text: str) -> list[tuple[int, str]]:
    """Cut a text where no replacement can reach across; never within what is seen as one."""
    starts = [
        i
        for i, char in enumerate(text)
        if i == 0 or not (_continues(char) or text[i - 1] == "\u200d")
    ]
    return [
        (at, text[at:until]) for at, until in zip(starts, [*starts[1:], len(text)], strict=True)
    ]


def _continues(char: str) -> bool:
    if char.isascii():
        return False
    return unicodedata.category(char) in _JOINED or "\u1160" <= char <= "\u11ff"
