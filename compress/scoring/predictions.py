"""What the rows of a probe say: a class, a tag a word, an answer, a choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from compress.scoring.answer_metrics import answer_scores, best_threshold
from compress.scoring.metrics import MULTI_LABEL
from compress.scoring.probe import Probe
from compress.scoring.targets import word_tokens
from edgebert.errors import DataError
from edgebert.tasks.answers import AnswerWindow, Places, find_places
from edgebert.tasks.tagging import OUTSIDE
from edgebert.types import FloatArray, IntArray


def predictions(probe: Probe, values: FloatArray) -> IntArray:
    """Give what a model chooses, as numbers.

    Args:
        probe: Of any task but ``regression`` and ``feature-extraction``.
        values: Its rows, float32 ``[rows, width]``.

    Returns:
        The class of each text, int64 ``[n]``, or for multi-label 1 where it applies ``[n, C]``;
        the tag of each word, ``[words]``, -1 for one that the tokenizer leaves nothing of; first
        and last character of each answer ``[n, 2]``, ``[0, 0]`` for none; the choice of each
        question ``[n]``; the id at each mask ``[n]``.
    """
    task = probe.head.task
    if task == "multiple-choice":
        return choices(probe, values)
    if task == "question-answering":
        return np.array([span for span, _ in answers(probe, values)], dtype=np.int64)
    if task == "token-classification":
        places = np.concatenate(_word_places(probe))  # [words]
        return np.where(places < 0, -1, values[places].argmax(axis=1))
    if probe.head.problem_type == MULTI_LABEL:
        return (values > 0).astype(np.int64)
    return np.asarray(values.argmax(axis=1), dtype=np.int64)


def choices(probe: Probe, values: FloatArray) -> IntArray:
    """Give the choice with the highest score of each question, int64 ``[n]``."""
    starts = np.flatnonzero(np.diff(probe.rows.owners, prepend=-1))
    scores = np.split(values[:, 0], starts[1:])
    return np.array([int(one.argmax()) for one in scores], dtype=np.int64)


def word_tags(probe: Probe, values: FloatArray) -> list[tuple[str, ...]]:
    """Give the tag at the first token of each word, as the field scores taggers.

    In a text of several windows it's the token of the one where it has the most context. A word
    that the tokenizer leaves nothing of is ``O``.
    """
    labels = probe.head.labels
    tagged = []
    for places in _word_places(probe):
        best = values[places].argmax(axis=1)
        pairs = zip(places.tolist(), best.tolist(), strict=True)
        tagged.append(tuple(OUTSIDE if place < 0 else labels[tag] for place, tag in pairs))
    return tagged


def _word_places(probe: Probe) -> list[IntArray]:
    """Say for each text in which rows of the values its words are, int64 ``[words]``; -1: none."""
    rows = probe.rows
    if rows.texts is None or rows.windows is None:
        raise DataError(f"The rows of {probe.split.source} are of another task.")
    where = [np.full(len(text), -1, np.int64) for text in rows.texts]
    for owner, start, window in zip(rows.owners.tolist(), rows.starts, rows.windows, strict=False):
        own = np.flatnonzero(window.best)
        where[owner][window.positions[own]] = start + own
    return [
        np.where(tokens < 0, -1, places[tokens])
        for places, tokens in zip(where, word_tokens(rows, probe.split), strict=True)
    ]


def answers(probe: Probe, values: FloatArray) -> list[tuple[tuple[int, int], str]]:
    """Give the best answer to each question as the runtime does.

    Returns:
        First character and behind the last, and the text; ``(0, 0)`` and ``""`` for no answer.
    """
    threshold = probe.no_answer_threshold if probe.head.no_answer else None
    contexts = probe.split.text_pairs or []
    return [
        _best(places, context, threshold)
        for places, context in zip(places_of(probe, values), contexts, strict=True)
    ]


def _best(places: Places, context: str, threshold: float | None) -> tuple[tuple[int, int], str]:
    best = places.best(1)
    if not best or (threshold is not None and places.margin > threshold):
        return (0, 0), ""
    span = int(places.starts[best[0]]), int(places.ends[best[0]])
    return span, context[slice(*span)]


def places_of(probe: Probe, values: FloatArray) -> list[Places]:
    """Score every place of each context that could be an answer."""
    rows, contexts = probe.rows, probe.split.text_pairs
    if rows.texts is None or rows.windows is None or contexts is None:
        raise DataError(f"The rows of {probe.split.source} are of another task.")
    windows: list[list[AnswerWindow]] = [[] for _ in contexts]
    for owner, start, window in zip(rows.owners.tolist(), rows.starts, rows.windows, strict=False):
        text, places = rows.texts[owner], window.positions
        own = values[start : start + len(places)]  # [seq, 2]
        offsets = [(first, last) for first, last in text.offsets[places].tolist()]
        windows[owner].append(
            AnswerWindow(own[:, 0], own[:, 1], offsets, text.text_ids[places] == 1)
        )
    longest = probe.head.max_answer_length
    return [
        find_places(one, context, max_answer_length=longest)
        for one, context in zip(windows, contexts, strict=True)
    ]


def calibrate_no_answer(probe: Probe, values: FloatArray) -> float | None:
    """Choose the threshold on "no answer" with the best F1 on a labelled split.

    Args:
        probe: Of questions, with true answers.
        values: Its rows by the FP32 model, float32 ``[tokens, 2]``.

    Returns:
        What a manifest calls ``no_answer_threshold``; None for a model that always answers. Without
        labels it is the head's own, or 0, where no answer and the best one score the same.
    """
    if not probe.head.no_answer:
        return None
    truths = true_answers(probe)
    if truths is None:
        return probe.head.no_answer_threshold or 0.0
    found = places_of(probe, values)
    contexts = probe.split.text_pairs or []
    best = [_best(*one, None)[1] for one in zip(found, contexts, strict=True)]
    _, answered = answer_scores(best, truths)
    margins = np.array([places.margin for places in found])
    none: npt.NDArray[np.float64] = np.array([float(not one) for one in truths])
    return best_threshold(margins, answered, none)


def calibrated(probe: Probe, reference: FloatArray) -> Probe:
    """Give a probe its threshold on "no answer", chosen on these very rows, if it lacks one."""
    if not probe.head.no_answer or probe.no_answer_threshold is not None:
        return probe
    return replace(probe, no_answer_threshold=calibrate_no_answer(probe, reference))


def true_answers(probe: Probe) -> list[list[str]] | None:
    """Give the texts of the true answers of each question; None for an unlabelled split."""
    labels: list[tuple[tuple[str, int], ...]] | None = probe.split.labels  # type: ignore[assignment]
    return None if labels is None else [[text for text, _ in one] for one in labels]
