"""One policy for long texts, on every method, and what windows give, calculated by hand."""

import logging

import numpy as np
import pytest

from edgebert.errors import InputError
from tests.edgebert.bundles import (
    SCORE,
    TABLE,
    hidden_by_hand,
    logits_by_hand,
)
from tests.tiny import VOCAB

LONG = " ".join(["good", "bad", "film", "very", "dull"] * 200)
METHODS = {
    "classify": ("text-classification", lambda rt, **how: rt.classify(["a", LONG], **how)),
    "score": ("regression", lambda rt, **how: rt.score(["a", LONG], **how)),
    "encode": ("feature-extraction", lambda rt, **how: rt.encode(["a", LONG], **how)),
    "encode_iter": (
        "feature-extraction",
        lambda rt, **how: np.concatenate(list(rt.encode_iter(["a", LONG], **how))),
    ),
    "encode_tokens": ("feature-extraction", lambda rt, **how: rt.encode_tokens(["a", LONG], **how)),
    "similarity": ("feature-extraction", lambda rt, **how: rt.similarity(["a"], [LONG], **how)),
    "rank": ("feature-extraction", lambda rt, **how: rt.rank("a", ["b", LONG], **how)),
    "tag": ("token-classification", lambda rt, **how: rt.tag(["a", LONG], **how)),
    "answer": ("question-answering", lambda rt, **how: rt.answer([("a", LONG)], **how)),
    "choose": ("multiple-choice", lambda rt, **how: rt.choose([("a", ["b", LONG])], **how)),
    "fill_mask": ("fill-mask", lambda rt, **how: rt.fill_mask(["[MASK]", "[MASK] " + LONG], **how)),
    "tokenize": ("text-classification", lambda rt, **how: rt.tokenize(["a", LONG], **how)),
}


def ids(words):
    return [VOCAB.index(word) for word in ["[CLS]", *words, "[SEP]"]]


def told(caplog):
    """What was logged of long texts; on a slow machine more may be said, as of a measurement."""
    return [record for record in caplog.records if record.name == "edgebert.tasks.core"]


@pytest.mark.parametrize("method", METHODS)
def test_a_long_text_is_an_error_on_every_method_when_asked_for(runtime_of, method):
    task, call = METHODS[method]
    with pytest.raises(InputError, match="more than 32 tokens"):
        call(runtime_of(task), on_long="error")


@pytest.mark.parametrize("method", METHODS)
def test_a_long_text_is_cut_on_every_method_and_that_is_logged_once(runtime_of, caplog, method):
    task, call = METHODS[method]
    runtime = runtime_of(task)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            call(runtime, on_long="truncate")
    (record,) = told(caplog)
    assert "were cut at max_length=32" in record.message


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"tokenize"}))
def test_windows_drop_nothing_on_every_method_and_say_nothing(runtime_of, caplog, method):
    task, call = METHODS[method]
    with caplog.at_level(logging.WARNING):
        results = call(runtime_of(task), on_long="window")
    assert not told(caplog)
    dropped = [getattr(one, "dropped_tokens", 0) for one in results]
    assert dropped == [(0, 0)] if method == "choose" else not np.any(dropped)


@pytest.mark.parametrize("method", METHODS)
def test_a_policy_that_does_not_exist_is_refused_on_every_method(runtime_of, method):
    task, call = METHODS[method]
    with pytest.raises(InputError, match="on_long is 'drop'; allowed: 'error', 'truncate'"):
        call(runtime_of(task), on_long="drop")


def test_the_bundle_holds_the_default(runtime_of):
    runtime = runtime_of("text-classification", on_long="error")
    with pytest.raises(InputError, match="more than 32 tokens"):
        runtime.classify([LONG])
    runtime = runtime_of("text-classification", on_long="window")
    assert runtime.classify([LONG])[0].dropped_tokens == 0
    assert runtime.tokenize([LONG]).dropped_tokens.tolist() == [970]


def test_a_batch_has_no_windows(runtime_of):
    with pytest.raises(InputError, match="one a text; give 'error' or 'truncate'"):
        runtime_of("text-classification").tokenize(["a"], on_long="window")


# Of 7 letters at max_length=6 and stride=2: windows abcd, cdef and efg. A letter counts where it
# is farthest from a cut: a b c in the first, d e in the second, f g in the third.
WINDOWS, WEIGHTS = ("abcd", "cdef", "efg"), np.array([3, 2, 2]) / 7


def test_a_class_is_the_weighted_mean_of_the_windows_logits(runtime_of):
    runtime = runtime_of("text-classification", max_length=6, stride=2)
    logits = WEIGHTS @ np.stack([logits_by_hand(ids(window)) for window in WINDOWS])
    expected = np.exp(logits) / np.exp(logits).sum()
    (result,) = runtime.classify(["a b c d e f g"], on_long="window")
    assert [result.scores[name] for name in ("bad", "fair", "good")] == pytest.approx(
        expected, abs=1e-5
    )


def test_a_score_is_the_weighted_mean_of_the_windows_scores(runtime_of):
    runtime = runtime_of("regression", max_length=6, stride=2)
    alone = np.stack([logits_by_hand(ids(window), weight=SCORE) for window in WINDOWS])
    found = runtime.score(["a b c d e f g", "a"], on_long="window")
    assert found[0] == pytest.approx(float(WEIGHTS @ alone[:, 0]), abs=1e-5)
    assert found[1] == pytest.approx(float(logits_by_hand(ids("a"), weight=SCORE)[0]), abs=1e-5)


def test_of_a_pair_the_longer_text_is_cut(runtime_of):
    runtime = runtime_of("text-classification", pairs=True, max_length=8, stride=2)
    window_ids = [[*ids(window), *ids("z")[1:]] for window in WINDOWS]
    types = [[0] * (len(window) + 2) + [1, 1] for window in WINDOWS]
    alone = [logits_by_hand(i, t) for i, t in zip(window_ids, types, strict=True)]
    logits = WEIGHTS @ np.stack(alone)
    expected = np.exp(logits) / np.exp(logits).sum()
    (result,) = runtime.classify([("a b c d e f g", "z")], on_long="window")
    assert [result.scores[name] for name in ("bad", "fair", "good")] == pytest.approx(
        expected, abs=1e-5
    )


def test_a_choice_is_weighed_over_its_windows(runtime_of):
    runtime = runtime_of("multiple-choice", max_length=8, stride=2)
    windows = [
        logits_by_hand(ids("z") + ids(w)[1:], [0] * 3 + [1] * (len(w) + 1), SCORE) for w in WINDOWS
    ]
    short = logits_by_hand([*ids("z"), *ids("y")[1:]], [0] * 3 + [1] * 2, SCORE)
    logits = np.concatenate([WEIGHTS @ np.stack(windows), short])
    (choice,) = runtime.choose([("z", ["a b c d e f g", "y"])], on_long="window")
    assert choice.scores == pytest.approx(np.exp(logits) / np.exp(logits).sum(), abs=1e-5)
    assert choice.dropped_tokens == (0, 0)


def test_a_vector_is_the_weighted_mean_of_the_windows_vectors(runtime_of):
    runtime = runtime_of("feature-extraction", max_length=6, stride=2)
    pooled = np.stack([hidden_by_hand(ids(window)).mean(axis=0) for window in WINDOWS])
    mean = WEIGHTS @ pooled
    found = runtime.encode(["a b c d e f g"], on_long="window")[0]
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)


def test_each_window_has_the_prompt(runtime_of):
    runtime = runtime_of("feature-extraction", max_length=7, stride=2, prompts={"query": "good "})
    hidden = [hidden_by_hand(ids(["good", *window])).mean(axis=0) for window in WINDOWS]
    mean = WEIGHTS @ np.stack(hidden)
    found = runtime.encode(["a b c d e f g"], role="query", on_long="window")[0]
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)
    (tokens,) = runtime.encode_tokens(["a b c d e f g"], role="query", on_long="window")
    assert tokens.offsets == [(2 * i, 2 * i + 1) for i in range(7)]


def test_a_token_has_its_vector_of_the_window_where_it_has_the_most_context(runtime_of):
    runtime = runtime_of("feature-extraction", max_length=6, stride=2)
    (found,) = runtime.encode_tokens(["a b c d e f g"], on_long="window")
    first, second, third = (hidden_by_hand(ids(window)) for window in WINDOWS)
    # places in a window count [CLS]
    expected = [*first[1:4], second[2], second[3], third[2], third[3]]
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)
    assert found.offsets == [(2 * i, 2 * i + 1) for i in range(7)]


def test_a_mask_is_filled_in_the_window_where_it_has_the_most_context(runtime_of):
    runtime = runtime_of("fill-mask", max_length=6, stride=2)
    (masks,) = runtime.fill_mask(["a b c d [MASK] f [MASK]"], on_long="window", top_k=1)
    second = hidden_by_hand(ids(["c", "d", "[MASK]", "f"]))[3] @ TABLE.T
    third = hidden_by_hand(ids(["[MASK]", "f", "[MASK]"]))[3] @ TABLE.T
    assert [mask[0].token_id for mask in masks] == [second.argmax(), third.argmax()]
    for mask, logits in zip(masks, (second, third), strict=True):
        weights = np.exp(logits - logits.max())
        assert mask[0].score == pytest.approx(weights.max() / weights.sum(), rel=1e-4)


def test_a_mask_that_was_cut_off_is_an_error_that_names_the_text(runtime_of):
    runtime = runtime_of("fill-mask", max_length=6)
    with pytest.raises(InputError, match=r"1 masks of texts\[1\] .* on_long='window'"):
        runtime.fill_mask(["[MASK]", "[MASK] a b c d [MASK]"], on_long="truncate")


def test_too_large_a_stride_is_lowered_and_that_is_logged_once(runtime_of, caplog):
    runtime = runtime_of("text-classification", max_length=6, stride=128)
    with caplog.at_level(logging.WARNING):
        runtime.classify(["a b c d e f g"], on_long="window")
        runtime.classify(["a b c d e f g"], on_long="window")
    (record,) = told(caplog)
    assert "stride of 128 tokens, so that some share 2 only" in record.message


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"tokenize"}))
def test_a_stride_of_more_than_a_window_ends_and_drops_nothing_on_every_method(
    runtime_of, caplog, method
):
    task, call = METHODS[method]
    with caplog.at_level(logging.WARNING):
        results = call(runtime_of(task, stride=128), on_long="window")
    (record,) = told(caplog)
    assert "stride of 128 tokens" in record.message
    assert not np.any([getattr(one, "dropped_tokens", 0) for one in results])


def test_two_long_texts_leave_windows_no_room_and_the_pair_is_named(runtime_of):
    runtime = runtime_of("text-classification", pairs=True)
    with pytest.raises(InputError, match=r"texts\[1\] can't be cut into windows of 32"):
        runtime.classify([("a", "b"), (LONG, LONG)], on_long="window")
    runtime = runtime_of("multiple-choice")
    with pytest.raises(InputError, match=r"prompt_choices_pairs\[1\] with choice 0 can't be cut"):
        runtime.choose([("a", ["b", "c"]), (LONG, [LONG])], on_long="window")


def test_a_choice_that_is_too_long_is_named_with_its_prompt(runtime_of):
    with pytest.raises(InputError, match=r"prompt_choices_pairs\[1\] with choice 1: 1004"):
        runtime_of("multiple-choice").choose(
            [("a", ["b", "c"]), ("a", ["b", LONG])], on_long="error"
        )
