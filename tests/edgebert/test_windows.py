"""Windows of long texts, over many random shapes."""

import random
from itertools import pairwise

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.text.tokenizer import Tokenizer
from edgebert.text.windows import TokenOutputs, WindowedTexts, cut_windows, merge_token_values
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer

CLS, SEP = 2, 3
WORDS = ["good", "bad", "film", "very", "the", "plot", "fun", "dull"]
SHAPES = range(60)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


def words(count, chance):
    return " ".join(chance.choice(WORDS) for _ in range(count))


def drawn(tokenizer, seed):
    """Draw a text or a pair that is too long, and how it is to be cut."""
    chance = random.Random(seed)
    max_length = chance.randint(6, 40)
    long = words(chance.randint(max_length, 6 * max_length), chance)
    other = words(chance.randint(0, max_length - 5), chance)
    side = chance.choice([None, 0, 1])
    first, second = (long, other) if side == 0 else (other, long)
    texts, pairs = ([long], None) if chance.random() < 0.4 else ([first], [second])
    (encoding,) = tokenizer.encode(texts, pairs, max_length=None)
    stride = chance.choice([None, 0, 1, 3, max_length - 1, 2 * max_length])
    how = {"max_length": max_length, "stride": stride, "side": side if pairs else None}
    return encoding, how, cut_windows(encoding, **how)


@pytest.mark.parametrize("seed", SHAPES)
def test_every_token_is_in_a_window_and_no_window_is_too_long(tokenizer, seed):
    encoding, how, windows = drawn(tokenizer, seed)
    seen = np.concatenate([window.positions for window in windows])
    assert set(seen.tolist()) == set(range(len(encoding)))
    assert len(windows) > 1
    assert max(len(window.encoding) for window in windows) <= how["max_length"]


@pytest.mark.parametrize("seed", SHAPES)
def test_every_token_is_the_best_in_exactly_one_window(tokenizer, seed):
    encoding, _, windows = drawn(tokenizer, seed)
    best = np.concatenate([window.positions[window.best] for window in windows])
    assert sorted(best.tolist()) == list(range(len(encoding)))


@pytest.mark.parametrize("seed", SHAPES)
def test_every_window_has_the_special_tokens_and_the_other_text(tokenizer, seed):
    encoding, how, windows = drawn(tokenizer, seed)
    counts = [int((encoding.text_ids == text).sum()) for text in (0, 1)]
    cut = int(counts[1] > counts[0]) if how["side"] is None else how["side"]
    kept = np.flatnonzero(encoding.text_ids != cut)
    for window in windows:
        assert set(kept) <= set(window.positions)
        np.testing.assert_array_equal(
            window.encoding.input_ids, encoding.input_ids[window.positions]
        )
        assert window.encoding.input_ids[[0, -1]].tolist() == [CLS, SEP]


@pytest.mark.parametrize("seed", SHAPES)
def test_neighbours_share_the_stride_or_half_the_room(tokenizer, seed):
    encoding, how, windows = drawn(tokenizer, seed)
    every = set(windows[0].positions).intersection(*(w.positions for w in windows[1:]))
    side = how["side"]
    if side is None:
        side = int((encoding.text_ids == 1).sum() > (encoding.text_ids == 0).sum())
    cut = {i for i, text in enumerate(encoding.text_ids) if text == side}
    kept = len(encoding) - len(cut)
    room = how["max_length"] - kept
    stride = how["max_length"] // 4 if how["stride"] is None else how["stride"]
    expected = stride if stride < room else room // 2
    for before, after in pairwise(windows):
        assert len(set(before.positions) & set(after.positions) & cut) == expected
        assert after.shared == expected
    assert every >= set(range(len(encoding))) - cut


@pytest.mark.parametrize("seed", SHAPES)
def test_the_best_window_has_the_most_context_on_both_sides(tokenizer, seed):
    encoding, how, windows = drawn(tokenizer, seed)
    side = how["side"]
    if side is None:
        side = int((encoding.text_ids == 1).sum() > (encoding.text_ids == 0).sum())
    cut = np.flatnonzero(encoding.text_ids == side)

    def context(window, position):
        """Count the tokens between it and the nearer cut; the text's own ends are none."""
        inside = [p for p in window.positions.tolist() if encoding.text_ids[p] == side]
        left = position - inside[0] if inside[0] != cut[0] else len(encoding)
        right = inside[-1] - position if inside[-1] != cut[-1] else len(encoding)
        return min(left, right)

    for position in cut.tolist():
        has = [window for window in windows if position in window.positions]
        (chosen,) = [w for w in windows if position in w.positions[w.best]]
        assert context(chosen, position) == max(context(window, position) for window in has)


def test_windows_of_a_hand_made_text(tokenizer):
    (encoding,) = tokenizer.encode(["a b c d e f g"], max_length=None)
    windows = cut_windows(encoding, max_length=6, stride=2)  # room for 4 tokens, 2 are new
    letters = [[VOCAB[i] for i in w.encoding.input_ids[1:-1]] for w in windows]
    assert letters == [list("abcd"), list("cdef"), list("efg")]
    best = [[VOCAB[encoding.input_ids[p]] for p in w.positions[w.best]] for w in windows]
    assert best == [["[CLS]", *"abc", "[SEP]"], ["d", "e"], ["f", "g"]]
    assert [window.weight for window in windows] == [3, 2, 2]


def test_a_text_that_fits_is_one_window_as_it_is(tokenizer):
    (encoding,) = tokenizer.encode(["a b c"], max_length=None)
    (window,) = cut_windows(encoding, max_length=5)
    assert window.encoding is encoding
    assert window.best.all()


def test_a_prompt_is_in_every_window(tokenizer):
    (encoding,) = tokenizer.encode(["good: a b c d e f"], max_length=None)
    windows = cut_windows(encoding, max_length=7, stride=0, prompt=len("good: "))
    starts = [[VOCAB[i] for i in w.encoding.input_ids] for w in windows]
    # ":" is no word of the vocabulary
    assert all(tokens[:3] == ["[CLS]", "good", "[UNK]"] for tokens in starts)
    assert [tokens[3:-1] for tokens in starts] == [["a", "b", "c"], ["d", "e", "f"]]


def test_a_question_that_fills_the_room_is_an_error_with_its_name(tokenizer):
    (encoding,) = tokenizer.encode(["a b c d"], ["e f g"], max_length=None)
    with pytest.raises(InputError, match=r"pairs\[3\] can't be cut .* the 7 tokens"):
        cut_windows(encoding, max_length=7, side=1, name="pairs[3]")
    assert len(cut_windows(encoding, max_length=8, side=1)) == 3


def test_a_stride_that_would_leave_tokens_out_is_refused(tokenizer):
    (encoding,) = tokenizer.encode(["a b c d"], max_length=None)
    with pytest.raises(InputError, match="stride is -1; it must be 0 or more"):
        cut_windows(encoding, max_length=4, stride=-1)


def test_merged_values_are_those_of_the_best_window(tokenizer):
    (encoding,) = tokenizer.encode(["a b c d e f g"], max_length=None)
    windows = cut_windows(encoding, max_length=6, stride=2)
    # the value of a token says its place and its window; the last row is padding
    values = [
        np.array([*(100.0 * k + w.positions), -1.0], dtype=np.float32)[:, None]
        for k, w in enumerate(windows)
    ]
    merged = merge_token_values(windows, values)
    assert merged[:, 0].tolist() == [0, 1, 2, 3, 104, 105, 206, 207, 8]
    outputs = TokenOutputs(encoding, windows, [{"logits": one} for one in values])
    np.testing.assert_array_equal(outputs.merged("logits"), merged)


def test_the_mean_counts_a_shared_token_once(tokenizer):
    whole = tokenizer.encode(["a b c d e f g", "a"], max_length=None)
    windowed = WindowedTexts(whole, [cut_windows(one, max_length=6, stride=2) for one in whole])
    values = np.array([[7.0], [14.0], [21.0], [5.5]], dtype=np.float32)  # weights 3, 2, 2; 1
    np.testing.assert_allclose(windowed.mean(values), [[(21 + 28 + 42) / 7], [5.5]], rtol=1e-6)
    assert windowed.places == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert windowed.dropped_tokens.tolist() == [0, 0]
