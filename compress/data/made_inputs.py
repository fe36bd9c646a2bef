"""Inputs of every task made of plain texts: to try a model that no data is given for."""

from __future__ import annotations

from collections.abc import Callable

from compress.data.load import Split, make_split
from compress.data.tagged import word_spans

QUESTION_WORDS = 12
CHOICES = 4


def as_pairs(split: Split) -> Split:
    """Put texts together, two by two: the first half with the second."""
    half = len(split) // 2
    seconds = split.texts[half : 2 * half]
    return make_split(split.name, split.source, split.texts[:half], text_pairs=seconds)


def as_words(split: Split) -> Split:
    """Take texts apart at white space."""
    words = [text.split() for text in split.texts]
    return make_split(
        split.name,
        split.source,
        [" ".join(one) for one in words],
        word_spans=[word_spans(one) for one in words],
    )


def as_questions(split: Split) -> Split:
    """Ask with the first words of each text for something in the others."""
    questions, contexts = [], []
    for text in split.texts:
        words = text.split()
        count = min(QUESTION_WORDS, len(words) // 2)
        questions.append(" ".join(words[:count]))
        contexts.append(" ".join(words[count:]))
    return make_split(split.name, split.source, questions, text_pairs=contexts)


def as_choices(split: Split) -> Split:
    """Offer the second half of each text, and those of its neighbours, as ends of the first."""
    halves = []
    for text in split.texts:
        words = text.split()
        middle = len(words) // 2
        halves.append((" ".join(words[:middle] or words), " ".join(words[middle:])))
    ends = [end for _, end in halves]
    choices = [
        tuple(ends[(row + step) % len(ends)] for step in range(CHOICES))
        for row in range(len(halves))
    ]
    return make_split(split.name, split.source, [prompt for prompt, _ in halves], choices=choices)


# Tasks whose inputs have one form; those that take single texts or pairs aren't here.
INPUTS: dict[str, Callable[[Split], Split]] = {
    "token-classification": as_words,
    "question-answering": as_questions,
    "multiple-choice": as_choices,
}
