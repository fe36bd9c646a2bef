import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.pooling import cls_pool, max_pool, mean_pool, normalize_rows, pool

HIDDEN = np.array([[[1.0, -2.0], [3.0, -4.0], [99.0, 99.0]]], dtype=np.float32)
MASK = np.array([[1, 1, 0]])


def test_padding_has_no_say_in_the_mean():
    np.testing.assert_array_equal(mean_pool(HIDDEN, MASK), [[2.0, -3.0]])


def test_padding_has_no_say_in_the_largest():
    np.testing.assert_array_equal(max_pool(HIDDEN, MASK), [[3.0, -2.0]])


def test_cls_is_the_first_token():
    np.testing.assert_array_equal(cls_pool(HIDDEN, MASK), [[1.0, -2.0]])


@pytest.mark.parametrize("how", ["mean", "cls", "max"])
def test_a_row_without_tokens_is_refused_by_every_pooling(how):
    with pytest.raises(InputError, match=r"rows \[0\]"):
        pool(HIDDEN, np.array([[0, 0, 0]]), how)


def test_cls_of_a_row_padded_on_the_left_is_refused():
    with pytest.raises(InputError, match="padded on the left"):
        cls_pool(HIDDEN, np.array([[0, 1, 1]]))


def test_an_unknown_pooling_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="'mean', 'cls', 'max'"):
        pool(HIDDEN, MASK, "sum")


def test_pooled_vectors_are_float32():
    assert {pool(HIDDEN, MASK, how).dtype for how in ("mean", "cls", "max")} == {np.dtype("f4")}


def test_normalized_rows_have_length_one():
    np.testing.assert_allclose(normalize_rows(np.array([[3.0, 4.0]], np.float32)), [[0.6, 0.8]])


def test_a_vector_of_zeros_cannot_be_normalized():
    with pytest.raises(InputError, match=r"Vectors \[1\]"):
        normalize_rows(np.array([[1.0, 0.0], [0.0, 0.0]], np.float32))
