import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.tasks.vectors import VectorForm, cosine

VECTORS = np.array([[3.0, -4.0, 12.0]], dtype=np.float32)  # 13 long


def form(**changes):
    return VectorForm(
        **{"normalize": False, "dim": 3, "dtype": "float32", "scale": None, **changes}
    )


def test_a_cut_vector_is_normalized_after_the_cut():
    np.testing.assert_allclose(
        form(normalize=True, dim=2).finish(VECTORS), [[0.6, -0.8]], rtol=1e-6
    )


def test_int8_is_the_value_in_steps_of_its_dimensions_scale():
    scale = np.array([0.5, 0.1, 0.01], dtype=np.float32)
    found = form(dtype="int8", scale=scale).finish(VECTORS)
    np.testing.assert_array_equal(found, np.array([[6, -40, 127]], dtype=np.int8))


def test_int8_of_a_cut_vector_is_the_cut_of_the_full_one():
    scale = np.array([0.01, 0.01, 0.01], dtype=np.float32)
    full = form(normalize=True, dtype="int8", scale=scale).finish(VECTORS)
    cut = form(normalize=True, dim=2, dtype="int8", scale=scale[:2]).finish(VECTORS)
    np.testing.assert_array_equal(cut, full[:, :2])


def test_binary_has_a_bit_for_each_dimension_above_zero():
    found = form(dtype="binary").finish(VECTORS)
    assert (found.tolist(), found.dtype) == ([[0b10100000]], np.uint8)


def test_float16_rounds_and_keeps_the_shape():
    found = form(dtype="float16").finish(VECTORS)
    assert (found.dtype, found.shape) == (np.float16, (1, 3))


def test_int8_without_a_scale_in_the_bundle_is_refused(tmp_path):
    from tests.edgebert.bundles import write_bundle

    manifest = write_bundle(tmp_path / "b", task="feature-extraction")
    with pytest.raises(InputError, match="needs an int8_scale"):
        VectorForm.of(manifest, normalize=None, truncate_dim=None, dtype="int8")
    with pytest.raises(InputError, match="truncate_dim is 9; these vectors have 8"):
        VectorForm.of(manifest, normalize=None, truncate_dim=9, dtype="float32")


def test_int8_of_vectors_that_the_scale_was_not_made_for_is_refused(embedder):
    with pytest.raises(InputError, match="normalize=True; leave normalize out"):
        embedder.encode(["good"], dtype="int8", normalize=False)


def test_cosine_does_not_depend_on_length():
    found = cosine(VECTORS * 5, np.array([[3.0, -4.0, 12.0], [4.0, 3.0, 0.0]], dtype=np.float32))
    np.testing.assert_allclose(found, [[1.0, 0.0]], atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "binary"])
def test_quantized_vectors_cannot_be_compared_by_cosine(embedder, dtype):
    vectors = embedder.encode(["good", "bad"], dtype=dtype)
    with pytest.raises(InputError, match=r"of dtype u?int8 .*dtype 'float32' or 'float16'"):
        embedder.similarity(["good"], vectors)


def test_vectors_of_half_precision_are_compared_as_their_texts(embedder):
    halves = embedder.encode(["good", "bad"], dtype="float16")
    expected = embedder.similarity(["film"], ["good", "bad"])
    np.testing.assert_allclose(embedder.similarity(["film"], halves), expected, atol=2e-3)


def test_vectors_of_different_width_cannot_be_compared():
    with pytest.raises(InputError, match=r"\[1, 3\] and \[1, 2\]"):
        cosine(VECTORS, VECTORS[:, :2])
