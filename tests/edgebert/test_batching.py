import numpy as np
import pytest

from edgebert.engines.batching import check_batch, pad, plan_batches
from edgebert.errors import InputError
from edgebert.text.tokenizer import Encoding
from edgebert.types import Batch


def encoding(*ids, dropped=0):
    array = np.array(ids, dtype=np.int64)
    zeros = np.zeros_like(array)
    return Encoding(array, zeros, [(0, 0)] * len(ids), zeros, zeros, zeros, dropped)


def batch_of(mask):
    mask = np.array(mask, dtype=np.int64)
    return Batch(mask, mask, mask, mask.sum(axis=1))


def test_padding_goes_on_the_right_to_the_longest():
    batch = pad([encoding(5), encoding(6, 7, 8, dropped=4)], pad_id=9)
    assert batch.input_ids.tolist() == [[5, 9, 9], [6, 7, 8]]
    assert batch.attention_mask.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert batch.dropped_tokens.tolist() == [0, 4]


def test_no_text_makes_a_batch_of_no_rows():
    assert pad([], pad_id=0).input_ids.shape == (0, 0)


def test_the_budget_counts_padded_cells():
    assert plan_batches([4, 4, 5], max_tokens=12) == [[0, 1], [2]]
    assert plan_batches([4, 4, 5], max_tokens=15) == [[0, 1, 2]]


def test_a_row_longer_than_the_budget_is_a_batch_of_its_own():
    assert plan_batches([300, 10, 400], max_tokens=64) == [[1], [0], [2]]


def test_batch_size_limits_the_rows():
    assert plan_batches([3, 1, 2, 1], max_tokens=99, batch_size=2) == [[1, 3], [2, 0]]


def test_every_row_comes_once_and_no_batch_is_over_the_budget():
    lengths = np.random.default_rng(0).integers(1, 200, size=500).tolist()
    plan = plan_batches(lengths, max_tokens=256)
    assert sorted(row for rows in plan for row in rows) == list(range(500))
    assert all(len(rows) * max(lengths[row] for row in rows) <= 256 for rows in plan)


@pytest.mark.parametrize("seed", range(20))
def test_no_batch_computes_much_more_than_its_texts_one_by_one(seed):
    chance = np.random.default_rng(seed)
    kinds = [chance.integers(3, 512, 300), chance.integers(3, 30, 300), [8] * 30 + [400] * 2]
    for lengths in (np.asarray(kind).tolist() for kind in kinds):
        for rows in plan_batches(lengths):
            tokens = sum(lengths[row] for row in rows)
            cells = len(rows) * max(lengths[row] for row in rows)
            assert cells - tokens <= max(16, tokens / 10)


def test_one_long_text_does_not_pad_the_short_ones():
    assert plan_batches([8, 400, 8, 8]) == [[0, 2, 3], [1]]


def test_texts_of_one_length_share_a_batch_up_to_the_budget():
    assert [len(rows) for rows in plan_batches([128] * 70)] == [32, 32, 6]


def test_no_rows_make_no_batches():
    assert plan_batches([]) == []


@pytest.mark.parametrize("setting", [{"max_tokens": 0}, {"batch_size": 0}, {"batch_size": 2.5}])
def test_a_budget_below_one_is_refused(setting):
    with pytest.raises(InputError, match="whole number, 1 or more"):
        plan_batches([1], **setting)


@pytest.mark.parametrize("mask", [[[0, 1, 1]], [[1, 0, 1]], [[1, 2, 0]]])
def test_left_padding_and_holes_are_refused(mask):
    with pytest.raises(InputError, match="pad on the right"):
        check_batch(batch_of(mask), max_length=8)


def test_a_row_without_real_tokens_is_refused():
    with pytest.raises(InputError, match="has no 1"):
        check_batch(batch_of([[1, 1], [0, 0]]), max_length=8)


def test_a_batch_without_a_row_is_refused():
    with pytest.raises(InputError, match=r"the shape \[0, 0\], so there is nothing to run"):
        check_batch(pad([], pad_id=0), max_length=8)


def test_a_batch_longer_than_the_positions_is_refused():
    with pytest.raises(InputError, match="3 tokens a row; the model has 2 positions"):
        check_batch(batch_of([[1, 1, 1]]), max_length=2)


@pytest.mark.parametrize("token", [-1, 30])
def test_an_id_without_a_row_in_the_table_is_refused(token):
    good = batch_of([[1, 1]])
    ids = np.array([[2, token]])
    batch = Batch(ids, good.attention_mask, good.token_type_ids, good.dropped_tokens)
    with pytest.raises(InputError, match=f"holds {token}; ids are from 0 to 29"):
        check_batch(batch, max_length=8, vocab_size=30)


def test_arrays_of_other_types_or_shapes_are_refused():
    good = batch_of([[1, 1]])
    wrong = Batch(
        good.input_ids.astype(np.int32), good.attention_mask, good.input_ids, good.dropped_tokens
    )
    with pytest.raises(InputError, match="input_ids is int32"):
        check_batch(wrong, max_length=8)
    wrong = Batch(good.input_ids, good.attention_mask[:, :1], good.input_ids, good.dropped_tokens)
    with pytest.raises(InputError, match=r"attention_mask is int64 \[1, 1\]"):
        check_batch(wrong, max_length=8)
