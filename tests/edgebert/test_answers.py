"""The best places of a context, by hand and against every place tried one by one."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.tasks.answers import AnswerWindow, best_answers, find_places

CONTEXT = "the plot is very dull"
WORDS = [(0, 3), (4, 8), (9, 11), (12, 16), (17, 21)]


def window(starts, ends, *, offsets=WORDS, question=2, null=0.0):
    """Put ``[CLS] question [SEP] context [SEP]`` around logits of the context's tokens.

    Whatever is not of the context has the highest logits of all.
    """
    before, count = question + 2, len(offsets)
    high = np.float32(50.0)
    start_logits = np.array([null, *[high] * (before - 1), *starts, high], dtype=np.float32)
    end_logits = np.array([null, *[high] * (before - 1), *ends, high], dtype=np.float32)
    start_logits[0] = end_logits[0] = null / 2
    mask = np.array([False] * before + [True] * count + [False])
    spans = [(0, 0), *[(i, i + 1) for i in range(question)], (0, 0), *offsets, (0, 0)]
    return AnswerWindow(start_logits, end_logits, spans, mask)


def answer(windows, *, length=30, **options):
    return best_answers(windows, CONTEXT, max_answer_length=length, **options)


def test_the_answer_runs_from_the_best_start_to_the_best_end():
    best = answer([window([0, 0, 0, 5, 0], [0, 0, 0, 0, 5])])[0]
    assert (best.text, best.start, best.end) == ("very dull", 12, 21)


def test_question_and_special_tokens_are_never_part_of_an_answer():
    found = answer([window([0] * 5, [0] * 5)], top_k=9)
    assert sorted(one.text for one in found) == ["dull", "is", "plot", "the", "very"]


def test_an_end_before_the_start_is_no_answer():
    best = answer([window([0, 0, 0, 0, 5], [4, 0, 0, 0, 0])])[0]
    assert best.start < best.end
    assert best.text == "dull"  # 5 + 0, against 0 + 4 for "the"


def test_an_answer_has_no_more_tokens_than_allowed():
    logits = [9, 0, 0, 0, 0], [0, 0, 0, 0, 9]
    assert answer([window(*logits)])[0].text == CONTEXT
    assert answer([window(*logits)], length=2)[0].text in ("the", "the plot", "dull", "very dull")


def test_a_score_is_the_share_among_all_places():
    # two tokens, three places: 1 + 2, 1 + 3, 2 + 3; as logits log 2, log 3, so weights 2, 3, 3
    starts, ends = [0.0, 0.0], [math.log(2), math.log(3)]
    found = answer([window(starts, ends, offsets=WORDS[:2])], length=1, top_k=2)
    assert [one.text for one in found] == ["plot", "the"]
    assert [one.score for one in found] == pytest.approx([3 / 5, 2 / 5])


def test_answers_don_t_overlap():
    found = answer([window([5, 4, 0, 0, 0], [0, 5, 0, 1, 0])], top_k=5)
    assert found[0].text == "the plot"
    spans = sorted((one.start, one.end) for one in found)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_scores_of_windows_are_compared_as_they_are():
    one = window([1, 0, 0], [1, 0, 0], offsets=WORDS[:3])  # sure of itself, of 2
    two = window([8, 7, 8], [8, 7, 8], offsets=WORDS[2:])  # not, of 16
    assert answer([one, two])[0].text == "is"


def test_a_place_in_two_windows_is_one_with_its_better_score():
    one = window([0, 0, 1], [0, 0, 1], offsets=WORDS[:3])
    two = window([3, 0, 0], [3, 0, 0], offsets=WORDS[2:])
    places = find_places([one, two], CONTEXT, max_answer_length=1)
    assert places.starts.tolist() == [0, 4, 9, 12, 17]
    assert places.scores.tolist() == [0, 0, 6, 0, 0]


def test_there_is_no_answer_when_none_is_above_the_best_by_more_than_the_threshold():
    windows = [window([2, 0, 0, 0, 0], [2, 0, 0, 0, 0], null=5.0)]
    found = answer(windows, no_answer_threshold=0.5)
    assert [(one.text, one.start, one.end) for one in found] == [("", 0, 0)]
    assert found[0].score == found[0].no_answer_score == pytest.approx(1 / (1 + math.exp(-0.5)))
    assert answer(windows, no_answer_threshold=1.0)[0].text == "the"
    assert answer(windows, no_answer_threshold=1.0)[0].no_answer_score == pytest.approx(0.5)


def test_places_follow_when_there_is_no_answer():
    windows = [window([2, 0, 0, 0, 0], [2, 0, 0, 0, 0], null=5.0)]
    assert [one.text for one in answer(windows, no_answer_threshold=0.0, top_k=2)] == ["", "the"]


def test_with_a_threshold_all_places_and_none_share_one():
    windows = [window([2, 0, 0, 1, 0], [2, 3, 0, 0, 0], null=5.0)]
    found = answer(windows, length=1, top_k=9, no_answer_threshold=0.0)
    assert math.fsum(one.score for one in found if one.text) == pytest.approx(
        1.0 - found[0].no_answer_score
    )


def test_a_model_that_always_answers_does_so_and_has_no_no_answer_score():
    found = answer([window([0] * 5, [0] * 5, null=99.0)])
    assert found[0].text
    assert found[0].no_answer_score is None


def test_the_window_that_is_least_sure_of_none_decides():
    missing = window([0] * 2, [0] * 2, offsets=WORDS[:2], null=20.0)
    having = window([4, 0], [0, 4], offsets=WORDS[3:], null=-20.0)
    found = answer([missing, having], no_answer_threshold=0.0)
    assert found[0].text == "very dull"


def test_white_space_of_a_token_is_not_in_the_answer():
    spaced = [(0, 3), (3, 8), (8, 11), (11, 12), (12, 16), (16, 21)]  # as sentence pieces have it
    best = answer([window([0, 9, 0, 0, 0, 0], [0, 0, 9, 0, 0, 0], offsets=spaced)])[0]
    assert best.text == CONTEXT[best.start : best.end] == "plot is"


def test_a_token_of_white_space_begins_and_ends_no_answer():
    spaced = [(0, 3), (3, 4), (4, 8)]
    places = find_places([window([0] * 3, [0] * 3, offsets=spaced)], CONTEXT, max_answer_length=3)
    spans = zip(places.starts.tolist(), places.ends.tolist(), strict=True)
    assert list(spans) == [(0, 3), (0, 8), (4, 8)]


def test_a_mark_of_the_last_character_is_in_the_answer():
    context = "un cafe\u0301 noir"
    windows = [window([0, 9, 0], [0, 9, 0], offsets=[(0, 2), (3, 7), (9, 13)])]
    best = best_answers(windows, context, max_answer_length=5)[0]
    assert best.text == "cafe\u0301"


def test_a_context_without_tokens_has_no_answer_or_is_refused():
    empty = window([], [], offsets=[])
    found = best_answers([empty], "\x00", max_answer_length=5, no_answer_threshold=0.0)
    assert [(one.text, one.score) for one in found] == [("", 1.0)]
    with pytest.raises(InputError, match="no token"):
        best_answers([empty], "\x00", max_answer_length=5)


@pytest.mark.parametrize("option", [{"top_k": 0}, {"max_answer_length": 0}, {"top_k": True}])
def test_counts_are_checked(option):
    with pytest.raises(InputError, match=next(iter(option))):
        best_answers(
            [window([0], [0], offsets=[(0, 3)])], CONTEXT, **{"max_answer_length": 3, **option}
        )


def _one_by_one(windows, longest, count):
    """Try every place of every window; choose greedily."""
    scores = {}
    for one in windows:
        tokens = [i for i, mine in enumerate(one.is_context) if mine]
        for a, first in enumerate(tokens):
            for last in tokens[a : a + longest]:
                span = (one.offsets[first][0], one.offsets[last][1])
                score = float(one.start_logits[first]) + float(one.end_logits[last])
                scores[span] = max(score, scores.get(span, -math.inf))
    total = math.fsum(math.exp(score) for score in scores.values())
    chosen = []
    for (start, end), score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
        if len(chosen) < count and all(end <= a or b <= start for a, b, _ in chosen):
            chosen.append((start, end, math.exp(score) / total))
    return chosen


def test_random_windows_agree_with_every_place_tried_one_by_one():
    random = np.random.default_rng(0)
    context = "abcdefghijklmnop" * 4
    for _ in range(60):
        cuts = np.sort(random.choice(len(context), size=24, replace=False))
        tokens = [(int(a), int(b)) for a, b in pairwise(cuts)]
        windows = [
            window(
                random.integers(-4, 5, size=len(part)),  # whole numbers, so that there are ties
                random.integers(-4, 5, size=len(part)),
                offsets=part,
                question=int(random.integers(0, 4)),
            )
            for part in (tokens[:10], tokens[7:17], tokens[14:])
        ]
        longest, count = int(random.integers(1, 8)), int(random.integers(1, 6))
        found = best_answers(windows, context, max_answer_length=longest, top_k=count)
        expected = _one_by_one(windows, longest, count)
        assert [(one.start, one.end) for one in found] == [one[:2] for one in expected]
        assert [one.score for one in found] == pytest.approx([one[2] for one in expected])
        assert all(one.text == context[one.start : one.end] for one in found)
