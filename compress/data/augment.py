"""Texts with some words exchanged, after TinyBERT (Jiao et al., 2020, algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgebert.text.words import split_words, tokens_of_words

if TYPE_CHECKING:
    from edgebert.text.tokenizer import Encoding


@dataclass(frozen=True)
class Word:
    """A word that may be exchanged.

    Attributes:
        text: 0, or 1 for the second text of a pair.
        start: Its first character in that text.
        end: Behind its last one.
        tokens: Places of its tokens in the row's encoding.
    """

    text: int
    start: int
    end: int
    tokens: tuple[int, ...]


def is_word(text: str) -> bool:
    """Tell whether a text is one word, with a letter in it: no sign, no number."""
    return split_words(text) == [(0, len(text))] and any(map(str.isalpha, text))


def exchangeable_words(texts: Sequence[str], encoding: Encoding) -> list[Word]:
    """Find the words of a row that may be exchanged, in their order.

    Left out are numbers and punctuation, a word that shares a token with another one, and words
    behind the row's maximum length, which no model reads.

    Args:
        texts: A text, or both texts of a pair.
        encoding: Of them, cut to the maximum length.
    """
    found = []
    for number, text in enumerate(texts):
        places = [
            place
            for place in np.flatnonzero(encoding.text_ids == number).tolist()
            if encoding.offsets[place][0] < encoding.offsets[place][1]
        ]
        words = split_words(text)
        tokens = tokens_of_words(words, [encoding.offsets[place] for place in places])
        for (start, end), own in zip(words, tokens, strict=True):
            its = tuple(places[token] for token in own)
            if its and is_word(text[start:end]) and _is_whole(text, (start, end), encoding, its):
                found.append(Word(number, start, end, its))
    return found


def _is_whole(
    text: str, word: tuple[int, int], encoding: Encoding, tokens: tuple[int, ...]
) -> bool:
    """Tell whether tokens cover a word and nothing else but space."""
    first, last = encoding.offsets[tokens[0]][0], encoding.offsets[tokens[-1]][1]
    return text[first:last].strip() == text[slice(*word)] and first <= word[0] <= word[1] <= last


def plan_copies(
    words: int, *, copies: int, probability: float, seed: int, row: int
) -> list[dict[int, float]]:
    """Draw which words each copy of a row exchanges.

    The numbers follow from the seed and the row alone, whatever other rows there are.

    Args:
        words: How many may be exchanged.
        copies: How many copies to make.
        probability: Of each word to be exchanged. At least one is, where there is one.
        seed: Of all draws, 0 or more.
        row: Number of the row.

    Returns:
        For each copy, by place of the word, where among its candidates to take one, from 0 to 1.
    """
    if not words:
        return []
    draws = np.random.default_rng([seed, row]).random((copies, words, 2))
    lots, picks = draws[:, :, 0], draws[:, :, 1]  # each [copies, words]
    chosen = (lots < probability) | (lots == lots.min(axis=1, keepdims=True))
    return [
        {word: float(picks[copy, word]) for word in np.flatnonzero(chosen[copy]).tolist()}
        for copy in range(copies)
    ]


def pick(candidates: Sequence[str], where: float) -> str:
    """Take the candidate at a part of the way, from 0 to below 1; all are equally likely."""
    return candidates[int(where * len(candidates))]


def exchange(
    texts: Sequence[str], words: Sequence[Word], others: Mapping[int, str]
) -> tuple[str, ...]:
    """Write a row with other words, in the case of those that they take the place of.

    Args:
        texts: A text, or both texts of a pair.
        words: The row's, in their order.
        others: What takes the place of a word, by its place in ``words``.
    """
    changed = list(texts)
    for place in sorted(others, reverse=True):  # from the end, so that places before it stay
        word = words[place]
        text = changed[word.text]
        other = in_case_of(text[word.start : word.end], others[place])
        changed[word.text] = text[: word.start] + other + text[word.end :]
    return tuple(changed)


def in_case_of(word: str, other: str) -> str:
    """Write another word in capitals, or with a first one, where the word is."""
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other[:1].upper() + other[1:] if word[:1].isupper() else other
