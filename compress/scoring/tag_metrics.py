"""How good entities are, as seqeval counts them: an entity is right or wrong as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from compress.scoring.intervals import ratio_interval
from edgebert.tasks.tagging import entity_spans


def evaluate_tags(
    predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Compare the entities that two taggings spell.

    An entity is right when its type, its first word and its last word are. F1 is micro: over all
    entities of all texts, as `seqeval`'s default mode counts (Nakayama, 2018).

    Args:
        predicted: A tag for each word of each text.
        expected: As many true tags.

    Returns:
        ``entity_f1`` with its 95 % ``interval``, ``precision``, ``recall``, ``accuracy`` of the
        tags, ``per_class`` by type (recall, precision, F1, support, predicted), ``rows``. Without
        any entity on both sides ``entity_f1`` is 0, as seqeval's.
    """
    hits: Counter[str] = Counter()
    found: Counter[str] = Counter()
    true: Counter[str] = Counter()
    counts = np.zeros((len(expected), 2))  # of each text: twice the hits, and all entities
    right = words = 0
    for row, (mine, theirs) in enumerate(zip(predicted, expected, strict=True)):
        own, wanted = set(entity_spans(mine)), set(entity_spans(theirs))
        both = own & wanted
        hits.update(kind for kind, _, _ in both)
        found.update(kind for kind, _, _ in own)
        true.update(kind for kind, _, _ in wanted)
        counts[row] = 2 * len(both), len(own) + len(wanted)
        right += sum(a == b for a, b in zip(mine, theirs, strict=True))
        words += len(theirs)
    return {
        "entity_f1": _ratio(float(counts[:, 0].sum()), float(counts[:, 1].sum())),
        "interval": ratio_interval(counts[:, 0], counts[:, 1]),
        "precision": _ratio(hits.total(), found.total()),
        "recall": _ratio(hits.total(), true.total()),
        "accuracy": _ratio(right, words),
        "per_class": {
            kind: _of_type(hits[kind], found[kind], true[kind]) for kind in sorted(found | true)
        },
        "rows": len(expected),
    }


def _of_type(hits: int, found: int, true: int) -> dict[str, float]:
    return {
        "recall": _ratio(hits, true),
        "precision": _ratio(hits, found),
        "f1": _ratio(2 * hits, found + true),
        "support": true,
        "predicted": found,
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
