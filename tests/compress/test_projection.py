"""The factorisation behind a projected student."""

from __future__ import annotations

import torch

from compress.models.projection import factorise


def test_factorise_is_exact_at_full_rank_and_the_truncated_svd_below():
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(6, 9, generator=generator).double() for _ in range(2))
    product = left.T @ right
    for rank in (6, 3):
        a, b = factorise(left, right, rank)
        u, s, v = torch.linalg.svd(product)
        assert a.shape == b.shape == (rank, 9)
        torch.testing.assert_close(a.T @ b, u[:, :rank] * s[:rank] @ v[:rank])
