"""Logits of tokens to tags of words, and tags to entities."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from edgebert.inputs import check_choice
from edgebert.tasks.heads import softmax
from edgebert.text.words import Span, fuse_words, split_words, tokens_of_words, written_words
from edgebert.types import Entity, FloatArray, IntArray

OUTSIDE = "O"
AGGREGATIONS = ("none", "first", "average", "max", "word")

# BIO, BIOES (also as IOBES), BILOU and BMES in one: the letters don't contradict each other
_POSITION = re.compile(r"([BIMELSU])(?:-(.*))?", re.DOTALL)
_INSIDE = {"M": "I", "L": "E", "U": "S"}


def read_tag(tag: str) -> tuple[str, str]:
    """Take a tag apart into where in an entity it stands and the entity's type.

    Args:
        tag: ``O``; ``B-PER``, ``I-PER``, ``E-PER``, ``S-PER`` (or ``L`` for E, ``U`` for S, ``M``
            for I); a letter alone, whose type is ``_``; or a plain name, like ``PER``, which is
            read as ``I-PER``.

    Returns:
        One of ``O``, ``B``, ``I``, ``E``, ``S``, and the type, ``""`` for ``O``.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    match = _POSITION.fullmatch(tag)
    if match is None:
        return "I", tag
    return _INSIDE.get(match[1], match[1]), match[2] or "_"


def entity_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Find the entities that a text's tags spell, leniently, as seqeval's default mode does.

    A tag goes on with the entity before it when it is an ``I`` or ``E`` of the same type, and the
    tag before it is a ``B`` or ``I``. Every other tag but ``O`` begins an entity: so an ``I`` at
    the start, behind ``O``, or behind another type is read as ``B``. Words with the same plain
    label, without a prefix, are one entity.

    Args:
        tags: One tag a word, see `read_tag`.

    Returns:
        Type, first word and last word of each entity, in order.
    """
    spans: list[tuple[str, int, int]] = []
    before, kind_before = OUTSIDE, ""
    for word, (position, kind) in enumerate(map(read_tag, tags)):
        if position in ("I", "E") and before in ("B", "I") and kind == kind_before:
            spans[-1] = (kind, spans[-1][1], word)
        elif position != OUTSIDE:
            spans.append((kind, word, word))
        before, kind_before = position, kind
    return spans


def decode_tags(
    logits: FloatArray,
    offsets: Sequence[Span],
    special_tokens_mask: IntArray,
    text: str,
    *,
    labels: Sequence[str],
    aggregation: str = "word",
    words: Sequence[Span] | None = None,
) -> list[Entity]:
    """Read the entities of one text from a token classifier's logits.

    ``none`` gives every token that has a visible character, with its tag, ``O`` too. All others
    tag whole words and join their tags by `entity_spans`; an entity's score is the mean of its
    words' probabilities.

    * ``word``: words are `written_words`, and the first token decides. That is what a model learns
      when only the first token of a word is labelled, and what its F1 is measured on.
    * ``first``: as ``word``, but punctuation within a word cuts it: words are `split_words`.
    * ``average``: as ``first``, but the mean of the probabilities of a word's tokens decides.
    * ``max``: as ``first``, but the token with the highest probability of any tag decides.

    Words that share a token are one word. Words of the caller's own are taken as they are, with
    any aggregation; one without a token is ``O``.

    Args:
        logits: float32 ``[tokens, labels]``.
        offsets: Start and end of each token in ``text``.
        special_tokens_mask: 1 for a token that the tokenizer added, int64 ``[tokens]``.
        text: The caller's text.
        labels: Tags in the order of the logits, see `read_tag`.
        aggregation: One of `AGGREGATIONS`.
        words: Start and end of the caller's own words, rising and apart; None to find them.

    Returns:
        In the order of the text; ``entity.text == text[entity.start:entity.end]`` is without white
        space at its ends.

    Raises:
        InputError: The aggregation is another.
    """
    check_choice("aggregation", aggregation, AGGREGATIONS)
    kept, tokens = _visible_tokens(offsets, special_tokens_mask, text)
    probabilities = softmax(logits[kept])  # [visible tokens, labels]
    if aggregation == "none":
        tags = [_best_tag(row, labels) for row in probabilities]
        pairs = zip(tags, tokens, strict=True)
        return [_entity(tag, score, span, text) for (tag, score), span in pairs]
    spans = _find_words(text, tokens, aggregation) if words is None else words
    owned = tokens_of_words(spans, tokens)
    tags = [_word_tag(probabilities[mine], labels, aggregation) for mine in owned]
    return [
        _entity(
            kind,
            float(np.mean([score for _, score in tags[first : last + 1]])),
            (spans[first][0], spans[last][1]),
            text,
        )
        for kind, first, last in entity_spans([tag for tag, _ in tags])
    ]


def _find_words(text: str, tokens: Sequence[Span], aggregation: str) -> list[Span]:
    """Find the words of a text that have a token.

    What the tokenizer drops, like a control character between two words, doesn't part an entity.
    """
    found = written_words(text) if aggregation == "word" else split_words(text)
    spans = fuse_words(found, tokens)
    owned = tokens_of_words(spans, tokens)
    return [span for span, mine in zip(spans, owned, strict=True) if mine]


def _visible_tokens(
    offsets: Sequence[Span], special_tokens_mask: IntArray, text: str
) -> tuple[list[int], list[Span]]:
    """Give places and spans of the tokens that show; a sentence piece's space is left out."""
    kept, spans = [], []
    for place, (start, end) in enumerate(offsets):
        span = _stripped(text, start, end)
        if not special_tokens_mask[place] and span[0] < span[1]:
            kept.append(place)
            spans.append(span)
    return kept, spans


def _word_tag(
    probabilities: FloatArray, labels: Sequence[str], aggregation: str
) -> tuple[str, float]:
    """Give a word's tag and its probability; ``probabilities`` are ``[its tokens, labels]``."""
    if not len(probabilities):
        return OUTSIDE, 1.0
    if aggregation == "average":
        return _best_tag(probabilities.mean(axis=0), labels)
    surest = int(probabilities.max(axis=1).argmax()) if aggregation == "max" else 0
    return _best_tag(probabilities[surest], labels)


def _best_tag(row: FloatArray, labels: Sequence[str]) -> tuple[str, float]:
    best = int(row.argmax())
    return labels[best], float(row[best])


def _entity(label: str, score: float, span: Span, text: str) -> Entity:
    start, end = _stripped(text, *span)
    return Entity(label, score, start, end, text[start:end])


def _stripped(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    first = start + len(piece) - len(piece.lstrip())
    return first, first + len(piece.strip())
