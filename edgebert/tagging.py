"""Tags to entities: what a token classifier's labels mean for the words they stand at."""

from __future__ import annotations

import re
from collections.abc import Sequence

OUTSIDE = "O"

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
