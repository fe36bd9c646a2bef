"""How often a corpus uses each piece, and which pieces are therefore kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers

from compress.trimming.kinds import Vocabulary
from edgebert.errors import InputError

CHUNK_TEXTS = 4096  # bounds the memory that the library's own objects take


@dataclass(frozen=True)
class PieceCounts:
    """What a corpus uses.

    Attributes:
        ids: How often each id comes up.
        characters: All of them, as the tokenizer's normalizer leaves them.
    """

    ids: Counter[int]
    characters: set[str]


def count_pieces(
    tokenizer: tokenizers.Tokenizer, vocabulary: Vocabulary, texts: Sequence[str]
) -> PieceCounts:
    """Count the pieces of texts, special tokens left out.

    Args:
        tokenizer: Without truncation and padding.
        vocabulary: Its model.
        texts: The corpus.
    """
    ids: Counter[int] = Counter()
    characters: set[str] = set()
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    for text, encoding in encodings(tokenizer, texts):
        ids.update(encoding.ids)
        characters.update(normalize(text))
        if vocabulary.unknown_id in encoding.ids:
            for token_id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
                if token_id == vocabulary.unknown_id:
                    ids.update(vocabulary.stopping(normalize(text[start:end])))
    return PieceCounts(ids, characters)


def encodings(
    tokenizer: tokenizers.Tokenizer, texts: Sequence[str]
) -> Iterator[tuple[str, Any]]:  # the library's Encoding, which has no types of its own
    """Give each text with its encoding, special tokens left out."""
    for start in range(0, len(texts), CHUNK_TEXTS):
        part = list(texts[start : start + CHUNK_TEXTS])
        yield from zip(part, tokenizer.encode_batch(part, add_special_tokens=False), strict=True)


def choose_ids(
    vocabulary: Vocabulary,
    counts: PieceCounts,
    needed: Collection[int],
    *,
    vocab_size: int | None,
    min_count: int,
) -> list[int]:
    """Choose the ids that are kept: the needed ones, then the most frequent ones that fit.

    Args:
        vocabulary: The pieces.
        counts: What the corpus uses.
        needed: Ids of tokens that stay in any case.
        vocab_size: Most ids that may be kept; None for no limit.
        min_count: How often the corpus must use a piece that is kept.

    Returns:
        Ids, rising.

    Raises:
        InputError: More are needed than ``vocab_size``.
    """
    pieces = set(vocabulary.ids.values())
    kept = set(needed)
    for token_id in vocabulary.always_kept(counts.characters) | (kept & pieces):
        kept |= vocabulary.parts(token_id)
    if vocab_size is not None and len(kept) > vocab_size:
        raise InputError(
            f"vocab_size must be {len(kept)} or more, got {vocab_size}: so many special tokens and "
            "single characters of the corpus stay in any case."
        )
    by_count = sorted(counts.ids, key=lambda i: (-counts.ids[i], i))
    for token_id in by_count:
        if counts.ids[token_id] >= min_count and token_id in pieces:
            more = vocabulary.parts(token_id) - kept
            if vocab_size is None or len(kept) + len(more) <= vocab_size:
                kept |= more
    return sorted(kept)
