"""Logits of starts and ends to answers: which places of a context answer a question best."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgebert.errors import InputError
from edgebert.inputs import check_count
from edgebert.types import Answer, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class AnswerWindow:
    """What a model says of one window: a question and a part of its context.

    Attributes:
        start_logits: How well an answer starts at each token, float32 ``[seq]``.
        end_logits: How well it ends there, float32 ``[seq]``.
        offsets: Start and end of each token, in characters of the text that it is of.
        is_context: Whether a token is of the context: no special token, not of the question;
            bool ``[seq]``.
        null_position: The token whose start and end stand for "no answer", the first (``[CLS]``).
    """

    start_logits: FloatArray
    end_logits: FloatArray
    offsets: Sequence[tuple[int, int]]
    is_context: npt.NDArray[np.bool_]
    null_position: int = 0


@dataclass(frozen=True, eq=False)
class Places:
    """All places of a context that could be an answer, over all of its windows.

    A place's score is the logit of its start plus that of its end. Logits of different windows are
    compared as they are, as Devlin et al. (2019) do: they are not normalized within a window, where
    one without an answer would be as sure of itself as the one that has it.

    Attributes:
        starts: First character of each place, rising, int64 ``[n]``.
        ends: Behind its last character, int64 ``[n]``.
        scores: Its score, in the best window that has it, float64 ``[n]``.
        null_score: Score of "no answer", the lowest of all windows: those that miss the answer are
            right to say that there is none, so the window that has it decides.
    """

    starts: IntArray
    ends: IntArray
    scores: npt.NDArray[np.float64]
    null_score: float

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def margin(self) -> float:
        """How far "no answer" is above the best place; infinite where there is no place.

        A ``no_answer_threshold`` is chosen on these (Devlin et al., 2019, for SQuAD 2.0).
        """
        return self.null_score - float(self.scores.max()) if len(self) else float("inf")

    def best(self, count: int) -> list[int]:
        """Choose the best places that don't overlap, best first; the earlier, shorter on a tie."""
        chosen: list[int] = []
        left = self.scores.copy()
        while len(chosen) < count and len(left) and left.max() > -np.inf:
            place = int(left.argmax())
            chosen.append(place)
            overlaps = (self.starts < self.ends[place]) & (self.ends > self.starts[place])
            left[overlaps] = -np.inf
        return chosen

    def probabilities(self) -> npt.NDArray[np.float64]:
        """Share a probability of 1 among the places, float64 ``[n]``."""
        weights = np.exp(self.scores - self.scores.max(initial=-np.inf))
        return np.asarray(weights / weights.sum())


def find_places(windows: Sequence[AnswerWindow], context: str, *, max_answer_length: int) -> Places:
    """Score every place of a context that could be an answer.

    Args:
        windows: One or more; neighbours may share tokens.
        context: The whole context, as the caller gave it.
        max_answer_length: Most tokens of an answer.

    Returns:
        Each place once. It has no white space at its ends, and combining marks of its last
        character are in it.

    Raises:
        InputError: ``max_answer_length`` is below 1, or there are no windows.
    """
    check_count("max_answer_length", max_answer_length)
    if not windows:
        raise InputError("There are no windows; give one or more.")
    found = [_window_places(window, context, max_answer_length) for window in windows]
    starts, ends, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    base = len(context) + 1
    keys, place = np.unique(starts * base + ends, return_inverse=True)
    best = np.full(len(keys), -np.inf)
    np.maximum.at(best, place, scores)
    nulls = [
        float(window.start_logits[window.null_position])
        + float(window.end_logits[window.null_position])
        for window in windows
    ]
    return Places(keys // base, keys % base, best, min(nulls))


def best_answers(
    windows: Sequence[AnswerWindow],
    context: str,
    *,
    max_answer_length: int,
    top_k: int = 1,
    no_answer_threshold: float | None = None,
) -> list[Answer]:
    """Find the best answers to a question in its context.

    With a threshold, the question has no answer when ``null_score - best score`` is above it: the
    first answer is then ``Answer(text="", start=0, end=0)``, and the best places follow. The
    ``no_answer_score`` is the logistic function of that difference less the threshold, so it is
    above one half just when there is no answer. The rest of the probability is shared by all
    places, by the softmax of their scores.

    Args:
        windows: One or more windows of the context.
        context: The whole context, as the caller gave it.
        max_answer_length: Most tokens of an answer.
        top_k: How many answers to give at most.
        no_answer_threshold: See above; None for a model that always answers.

    Returns:
        1 to ``top_k`` answers, best first. No two overlap.

    Raises:
        InputError: ``top_k`` or ``max_answer_length`` is below 1; or the model always answers, and
            the context has no token.
    """
    check_count("top_k", top_k)
    places = find_places(windows, context, max_answer_length=max_answer_length)
    if no_answer_threshold is None:
        if not len(places):
            raise InputError("The context has no token, so there is no place to answer from.")
        none, answers = None, []
    else:
        none = _logistic(places.margin - no_answer_threshold)
        answers = [Answer("", none, 0, 0, none)] if places.margin > no_answer_threshold else []
    probabilities = places.probabilities() * (1.0 - (none or 0.0))
    for place in places.best(top_k - len(answers)):
        start, end = int(places.starts[place]), int(places.ends[place])
        score = float(probabilities[place])
        answers.append(Answer(context[start:end], score, start, end, none))
    return answers


def _window_places(
    window: AnswerWindow, context: str, longest: int
) -> tuple[IntArray, IntArray, npt.NDArray[np.float64]]:
    """Give start, end and score of every place in a window, each ``[n]``."""
    tokens = np.flatnonzero(window.is_context)
    spans = [_visible(context, *window.offsets[token]) for token in tokens.tolist()]
    begins, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    shown = begins < ends
    first = window.start_logits[tokens].astype(np.float64)
    last = window.end_logits[tokens].astype(np.float64)
    rows = np.arange(len(tokens))[:, None]
    columns = rows + np.arange(min(longest, len(tokens)))  # [tokens, longest]
    rows = np.broadcast_to(rows, columns.shape)
    rows, columns = rows[columns < len(tokens)], columns[columns < len(tokens)]  # [n]
    right = shown[rows] & shown[columns] & (begins[rows] < ends[columns])
    rows, columns = rows[right], columns[right]
    return begins[rows], ends[columns], first[rows] + last[columns]


def _visible(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space around a token, and take in the marks of its last character."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    while start < end < len(text) and unicodedata.category(text[end])[0] == "M":
        end += 1
    return start, end


def _logistic(value: float) -> float:
    return float(1.0 / (1.0 + np.exp(-min(max(value, -700.0), 700.0))))
