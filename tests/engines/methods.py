"""How each of `Runtime`'s methods is asked, and what it says, as numbers and as a prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import edgebert
from tests.tiny import LETTERS, WORDS


@dataclass(frozen=True)
class Method:
    """A method of `edgebert.Runtime` under contract.

    Attributes:
        task: Of the bundles that have it.
        ask: Makes its input of a text.
        numbers: Reads the numbers off one result.
        says: Reads what a user acts on off one result.
        extra_tokens: How many more tokens than the words of the text an input has.
    """

    task: str
    ask: Callable[[str], Any]
    numbers: Callable[[Any], Any]
    says: Callable[[Any], Any]
    extra_tokens: int = 2  # [CLS] and [SEP]


METHODS = {
    "classify": Method(
        "text-classification",
        ask=str,
        numbers=lambda one: [one.scores[name] for name in sorted(one.scores)],
        says=lambda one: one.label,
    ),
    "score": Method(
        "regression",
        ask=str,
        numbers=lambda one: [one],
        says=lambda one: bool(one > 0.5),
    ),
    "tag": Method(
        "token-classification",
        ask=lambda text: f"{text} hello world",
        numbers=lambda one: [entity.score for entity in one.entities],
        says=lambda one: [(e.label, e.start, e.end, e.text) for e in one.entities],
        extra_tokens=4,
    ),
    "answer": Method(
        "question-answering",
        ask=lambda text: ("hello ?", f"{text} good"),
        numbers=lambda one: [answer.score for answer in one],
        says=lambda one: [(answer.start, answer.end, answer.text) for answer in one],
        extra_tokens=6,
    ),
    "choose": Method(
        "multiple-choice",
        ask=lambda text: ("the film", [f"good {text}", "dull film", "the plot"]),
        numbers=lambda one: one.scores,
        says=lambda one: one.index,
        extra_tokens=6,
    ),
    "fill_mask": Method(
        "fill-mask",
        ask=lambda text: f"[MASK] {text} [MASK]",
        numbers=lambda one: [filling.score for mask in one for filling in mask],
        says=lambda one: [mask[0].token_id for mask in one],
        extra_tokens=4,
    ),
    "encode": Method(
        "feature-extraction",
        ask=str,
        numbers=lambda one: one,
        says=lambda one: one.shape,
    ),
    "encode_tokens": Method(
        "feature-extraction",
        ask=str,
        numbers=lambda one: one.vectors.ravel(),
        says=lambda one: one.offsets,
    ),
}


def texts_of_all_lengths(name: str, max_length: int) -> list[str]:
    """Give distinct texts, so that a method's inputs have every length that fits.

    Args:
        name: Of the method.
        max_length: Longest input in tokens; words and letters are one token each.
    """
    rng = np.random.default_rng(0)
    longest = max_length - METHODS[name].extra_tokens
    return [" ".join(rng.choice(WORDS + LETTERS, words)) for words in range(longest + 1)]


def ask(runtime: edgebert.Runtime, name: str, texts: Sequence[str], **how: Any) -> list[Any]:
    """Call a method on texts; give one result each."""
    return list(getattr(runtime, name)([METHODS[name].ask(text) for text in texts], **how))


def numbers(
    runtime: edgebert.Runtime, name: str, texts: Sequence[str], **how: Any
) -> list[np.ndarray[Any, Any]]:
    """Call a method on texts; give the numbers of each result."""
    read = METHODS[name].numbers
    return [np.asarray(read(one), dtype=np.float64) for one in ask(runtime, name, texts, **how)]


def worst(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Give the largest difference; infinity where the counts differ."""
    if [np.shape(one) for one in found] != [np.shape(one) for one in expected]:
        return float("inf")
    pairs = zip(found, expected, strict=True)
    return max((float(np.abs(a - b).max(initial=0.0)) for a, b in pairs), default=0.0)
