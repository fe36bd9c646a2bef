"""Whether an embedder gives all texts the same vector."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from edgebert.errors import ModelError
from edgebert.types import FloatArray

COLLAPSED_COSINE = 0.98


def collapse_check(vectors: FloatArray | Tensor, *, limit: float = COLLAPSED_COSINE) -> float:
    """Measure how alike the vectors of different texts are, and refuse a collapsed embedder.

    Args:
        vectors: One a text, ``[n, H]``, of any length; texts that differ.
        limit: Most that the mean cosine may be.

    Returns:
        Mean cosine over all pairs of different rows; 0.0 for fewer than two rows.

    Raises:
        ModelError: It is above `limit`, or a vector is zero, NaN or infinite.
    """
    rows = np.asarray(vectors.detach().cpu() if isinstance(vectors, Tensor) else vectors)
    rows = rows.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        bad = int((~(np.isfinite(lengths) & (lengths > 0))).sum())
        raise ModelError(
            f"{bad} of {len(rows)} vectors are zero, NaN or infinite; lower the learning rate."
        )
    count = len(rows)
    if count < 2:
        return 0.0
    total = (rows / lengths).sum(axis=0)  # its square counts every pair twice, and each row once
    cosine = float((total @ total - count) / (count * (count - 1)))
    if cosine > limit:
        raise ModelError(
            f"The vectors collapsed: the mean cosine of different texts is {cosine:.3f}, above "
            f"{limit:.3g}. Lower the learning rate, raise similarity_weight, or start from the "
            "teacher's layers."
        )
    return cosine
