"""The words of a text in any script, found from its characters alone: no tokenizer has a say."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

# Scripts written without spaces between words: each character stands for itself.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FFF),  # radicals of Chinese characters
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3040, 0x31FF),  # kana, bopomofo
    (0x3400, 0x4DBF),  # Chinese characters
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # kana of half the width
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),  # more Chinese characters
)
_SKIN_TONES = (0x1F3FB, 0x1F3FF)

# Every character is turned into one letter, and words are found in the string of these:
#   s space    u capital letter  l other letter  n number   c character of an unspaced script
#   m mark that belongs to the character before it          f invisible: control or format
#   e symbol or emoji  j joins what it stands between       @ and # as they are
#   . full stop        , joins digits            p other punctuation
_JOINERS = "'\u2019-\u2010\u2011_&\u00b7\u05f3\u05f4"
_POSSESSIVE = ("'s", "\u2019s")
_OWN = {**dict.fromkeys(_JOINERS, "j"), "@": "@", "#": "#", ".": ".", ",": ",", ":": ","}

_RUN = "[uln]m*(?:f*[uln]m*)*"
_REST = "e(?:[mf]*e)*m*|cm*|[^s]m*"
_WRITTEN = re.compile(
    r"(?:[ul]m*\.){2,}(?![uln])"  # U.S.
    r"|um*\.(?=s+[uln])"  # the initial in J. Smith
    rf"|[@#]?{_RUN}(?:(?:[j@.]|(?<=n),(?=n)){_RUN})*"  # don't, AT&T, e-mail, @name, 1,000, a.b@c.d
    rf"|{_REST}"
)
_SPLIT = re.compile(rf"{_RUN}|{_REST}")


def written_words(text: str) -> list[Span]:
    """Find words as people write them, and as data sets of entities cut them.

    A word is a run of letters, digits and their marks. It may hold single signs within (``don't``,
    ``e-mail``, ``AT&T``, ``1,000``), begin with ``@`` or ``#``, and keep the full stop of initials
    (``U.S.``, ``J. Smith``). A possessive ``'s`` is a word of its own. Other punctuation is a word
    of one character; so is each character of a script without spaces (Chinese, kana, Thai, Lao,
    Khmer, Burmese). Symbols and emoji beside each other are one word.

    Returns:
        Start and end of each, in characters of ``text``, rising and apart.
    """
    return [part for word in _matches(_WRITTEN, text) for part in _without_possessive(text, *word)]


def split_words(text: str) -> list[Span]:
    """Find words as BERT's tokenizer first cuts a text: each sign of punctuation is a word.

    Else as `written_words`.
    """
    return _matches(_SPLIT, text)


def fuse_words(words: Sequence[Span], tokens: Sequence[Span]) -> list[Span]:
    """Make one word of those that a single token has a part of, so that no token is cut.

    Args:
        words: Start and end of each, rising and apart.
        tokens: Start and end of each token.
    """
    starts, ends = [start for start, _ in words], [end for _, end in words]
    glued: set[int] = set()  # to the word before
    for start, end in tokens:
        glued.update(range(bisect_right(ends, start) + 1, bisect_left(starts, end)))
    fused: list[Span] = []
    for number, (start, end) in enumerate(words):
        if number in glued:
            fused[-1] = (fused[-1][0], end)
        else:
            fused.append((start, end))
    return fused


def tokens_of_words(words: Sequence[Span], tokens: Sequence[Span]) -> list[list[int]]:
    """Say which tokens each word has.

    Args:
        words: Start and end of each, rising and apart.
        tokens: Start and end of each token, not empty, starts never falling.

    Returns:
        Places in ``tokens``. A token that touches several words is one of the first that has no
        token yet, or else of the first. A word that no token is left for has none.
    """
    found: list[list[int]] = [[] for _ in words]
    starts, ends = [start for start, _ in words], [end for _, end in words]
    for place, (start, end) in enumerate(tokens):
        touched = range(bisect_right(ends, start), bisect_left(starts, end))
        if touched:
            found[next((word for word in touched if not found[word]), touched[0])].append(place)
    return found


def _matches(words: re.Pattern[str], text: str) -> list[Span]:
    return [match.span() for match in words.finditer("".join(map(_kind, text)))]


def _without_possessive(text: str, start: int, end: int) -> list[Span]:
    if end - start > len(_POSSESSIVE[0]) and text[start:end].lower().endswith(_POSSESSIVE):
        middle = end - len(_POSSESSIVE[0])
        return [(start, middle), (middle, end)]
    return [(start, end)]


@lru_cache(maxsize=8192)
def _kind(character: str) -> str:
    code, category = ord(character), unicodedata.category(character)
    if character.isspace():
        return "s"
    if category[0] == "M" or _SKIN_TONES[0] <= code <= _SKIN_TONES[1]:
        return "m"
    if category[0] == "C":
        return "f"
    if any(first <= code <= last for first, last in _UNSPACED) and category[0] in "LN":
        return "c"
    if category[0] in "LN":
        return {"Lu": "u", "Lt": "u"}.get(category, category[0].lower())
    return _OWN.get(character, "e" if category == "So" else "p")
