"""How good answers are: exact match and F1, as SQuAD counts them, or as CMRC 2018 does."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
# What CMRC's script leaves out; other marks, as those of ASCII sentences, are units of their own.
_CMRC_LEFT_OUT = str.maketrans(
    "",
    "",
    "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』",  # noqa: RUF001
)
_LETTERS = rf"(?:(?!{_CJK.pattern})[^\W_])+"
_CMRC_UNIT = re.compile(rf"{_CJK.pattern}|{_LETTERS}(?:[.,']{_LETTERS})*|[^\w\s]")


def answer_scores(
    predicted: Sequence[str], truths: Sequence[Sequence[str]]
) -> tuple[Floats, Floats]:
    """Compare each answer with the true one that it fits best.

    Where, of the questions that have an answer, half or more have a true one with Chinese or
    Japanese characters, CMRC's way counts (Cui et al., 2019): case and most punctuation left out,
    units are those characters and the words between them, and F1 is that of the longest run of
    units in common. Else SQuAD's (Rajpurkar et al., 2016 and 2018): case, ASCII punctuation,
    English articles and white space left out, and F1 is that of the words in common. In both, where
    there is no answer, one of which nothing is left counts as none: 1.

    CMRC's script splits words with nltk; here they end at white space and punctuation.

    Args:
        predicted: One a question; ``""`` for no answer.
        truths: Any number of true answers a question; none where there is no answer.

    Returns:
        Exact match, 0 or 1, and F1, 0 to 1, float64 ``[n]`` each.
    """
    chinese = sum(1 for answers in truths if any(_CJK.search(answer) for answer in answers))
    compare = cmrc_scores if chinese * 2 >= sum(map(bool, truths)) > 0 else squad_scores
    found = [
        _best([compare(answer, truth) for truth in answers or ("",)])
        for answer, answers in zip(predicted, truths, strict=True)
    ]
    exact, f1 = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return exact, f1


def _best(scores: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return max(exact for exact, _ in scores), max(f1 for _, f1 in scores)


def squad_scores(answer: str, truth: str) -> tuple[float, float]:
    """Give exact match and F1 of two answers as SQuAD counts them."""
    mine, theirs = _squad_words(answer), _squad_words(truth)
    exact = float(mine == theirs)
    if not mine or not theirs:
        return exact, exact
    return exact, _f1((Counter(mine) & Counter(theirs)).total(), len(mine), len(theirs))


def _squad_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def cmrc_scores(answer: str, truth: str) -> tuple[float, float]:
    """Give exact match and F1 of two answers as CMRC 2018 counts them."""
    mine, theirs = (text.lower().strip().translate(_CMRC_LEFT_OUT) for text in (answer, truth))
    exact = float(mine == theirs)
    own, true = _CMRC_UNIT.findall(mine), _CMRC_UNIT.findall(theirs)
    if not own or not true:
        return exact, exact
    run = SequenceMatcher(None, own, true, autojunk=False).find_longest_match()
    return exact, _f1(run.size, len(own), len(true))


def _f1(common: int, mine: int, theirs: int) -> float:
    return 2 * common / (mine + theirs)


def best_threshold(margins: Floats, answered: Floats, none: Floats) -> float:
    """Choose from which margin on "no answer" scores best, as SQuAD 2.0's script does for F1.

    Args:
        margins: Score of no answer less that of the best one, float64 ``[n]``.
        answered: What each question scores with its best answer, float64 ``[n]``.
        none: What it scores with none: 1 where there is no answer, else 0, float64 ``[n]``.

    Returns:
        A question has no answer where its margin is above this. Of thresholds that score the same
        it is the one nearest to 0.
    """
    order = np.argsort(margins, kind="stable")
    sorted_margins = margins[order]
    finite = sorted_margins[np.isfinite(sorted_margins)]
    if not finite.size:
        return 0.0
    between = (finite[1:] + finite[:-1]) / 2
    thresholds = np.concatenate([[finite[0] - 1.0], between, [finite[-1] + 1.0], [0.0]])
    kept = np.searchsorted(sorted_margins, thresholds, side="right")  # so many are answered
    gains = np.concatenate([[0.0], np.cumsum(answered[order] - none[order])])
    totals = gains[kept]
    best = np.flatnonzero(totals >= totals.max() - 1e-9)
    return float(thresholds[best[np.abs(thresholds[best]).argmin()]])
