"""The collapse detector of embedding students."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compress.scoring.collapse import collapse_check
from edgebert.errors import ModelError


def test_collapse_check_gives_the_mean_cosine_of_different_texts():
    vectors = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]], dtype=np.float32)
    expected = (0.0 + 0.5**0.5 + 0.5**0.5) / 3  # 90, 45 and 45 degrees
    assert collapse_check(vectors) == pytest.approx(expected)
    assert collapse_check(torch.from_numpy(vectors)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("vectors", "named"),
    [
        ([[1.0, 0.01], [1.0, 0.0], [1.0, -0.01]], "collapsed: the mean cosine"),
        ([[1.0, 0.0], [0.0, 0.0]], "1 of 2 vectors are zero"),
        ([[1.0, 0.0], [float("nan"), 0.0]], "1 of 2 vectors are zero, NaN"),
    ],
)
def test_collapsed_or_broken_vectors_are_refused(vectors, named):
    with pytest.raises(ModelError, match=named):
        collapse_check(np.array(vectors, dtype=np.float32))
