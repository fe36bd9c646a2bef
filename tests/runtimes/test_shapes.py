"""Few shapes, each row in one of its own length, everything back in its place."""

from __future__ import annotations

import numpy as np
import pytest

from edgebert.types import Batch
from runtimes.shapes import padded_length, pieces, put_together, take


def batch_of(*lengths, width=None):
    shape = (len(lengths), width or max(lengths))
    mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int64)
    ids = np.arange(1, 1 + mask.size).reshape(shape) * mask
    return Batch(ids, mask, 1 - mask, np.arange(len(lengths)))


@pytest.mark.parametrize(
    ("length", "expected"),
    [(1, 8), (8, 8), (9, 16), (64, 64), (65, 80), (129, 160), (257, 320), (500, 512), (512, 512)],
)
def test_a_length_is_rounded_up_in_steps_that_grow(length, expected):
    assert padded_length(length, limit=512) == expected


@pytest.mark.parametrize(("length", "expected"), [(60, 64), (65, 66), (66, 66), (70, 70)])
def test_no_row_is_padded_past_what_the_model_takes(length, expected):
    assert padded_length(length, limit=66) == expected


def test_without_a_limit_no_row_is_padded():
    assert padded_length(13, limit=None) == 13


def test_there_are_twenty_lengths_up_to_512():
    assert len({padded_length(length, limit=512) for length in range(1, 513)}) == 20


@pytest.mark.parametrize(
    ("rows", "counts"),
    [(1, [1]), (8, [8]), (3, [2, 1]), (33, [32, 1]), (35, [32, 2, 1]), (130, [64, 64, 2])],
)
def test_long_rows_are_cut_into_powers_of_two(rows, counts):
    found = [len(piece.rows) for piece in pieces(batch_of(*[100] * rows), limit=512)]
    assert found == counts


@pytest.mark.parametrize(
    ("rows", "length", "run"), [(3, 8, [0, 1, 2, 2]), (7, 32, [*range(7), 6]), (3, 40, [0, 1])]
)
def test_a_short_row_is_run_again_rather_than_alone(rows, length, run):
    first = next(pieces(batch_of(*[length] * rows), limit=512))
    assert first.rows.tolist() == run


def test_rows_of_one_length_are_together():
    found = [(p.rows.tolist(), p.length) for p in pieces(batch_of(3, 20, 7, 9), limit=512)]
    assert found == [([0, 2], 8), ([3], 16), ([1], 24)]


def test_a_length_depends_on_the_row_alone():
    wide = batch_of(3, 5, width=40)
    assert [piece.length for piece in pieces(wide, limit=512)] == [8]


def test_what_a_piece_is_padded_with_is_masked():
    batch = batch_of(3, 5)
    (piece,) = pieces(batch, limit=512)
    part = take(batch, piece)
    assert part.input_ids.shape == (2, 8)
    np.testing.assert_array_equal(part.input_ids[:, :5], batch.input_ids)
    np.testing.assert_array_equal(part.attention_mask.sum(axis=1), [3, 5])
    np.testing.assert_array_equal(part.dropped_tokens, [0, 1])


def test_everything_comes_back_in_its_place():
    batch = batch_of(3, 20, 7, 9, 20)
    parts = [(piece, take(batch, piece)) for piece in pieces(batch, limit=512)]
    tokens = [(piece, part.input_ids.astype(np.float32)) for piece, part in parts]
    texts = [(piece, part.dropped_tokens[:, None].astype(np.float32)) for piece, part in parts]
    np.testing.assert_array_equal(put_together(tokens, batch, per_token=True), batch.input_ids)
    np.testing.assert_array_equal(
        put_together(texts, batch, per_token=False), batch.dropped_tokens[:, None]
    )


def test_padding_on_the_left_is_kept():
    batch = batch_of(4, 4)
    batch.attention_mask[0] = [0, 0, 1, 1]
    assert [piece.length for piece in pieces(batch, limit=None)] == [4]
