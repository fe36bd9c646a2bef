"""Hide tokens for masked-language-model training (Devlin et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from compress.training.losses import IGNORED_LABEL

MASKED_SHARE = 0.15


def mask_tokens(
    batch: dict[str, Tensor],
    *,
    mask_id: int,
    special_ids: Sequence[int],
    vocab_size: int,
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """Choose 15 % of the real tokens: 80 % become the mask, 10 % a random token, 10 % stay.

    At least one token a text is chosen, where it has an ordinary one.

    Args:
        batch: ``input_ids`` and ``attention_mask``, int64 ``[B, S]``, and anything else.
        mask_id: Of the mask token.
        special_ids: Never chosen, nor drawn as a random token.
        vocab_size: Random tokens are below it.
        generator: Of the random numbers; default torch's own.

    Returns:
        A new batch with masked ``input_ids`` and ``labels``: the hidden token's id, elsewhere
        -100.
    """
    input_ids = batch["input_ids"]
    device = input_ids.device
    specials = torch.tensor(sorted(set(special_ids)), device=device)
    ordinary = batch["attention_mask"].bool() & ~torch.isin(input_ids, specials)
    draw = torch.rand(input_ids.shape, generator=generator).to(device)
    draw = draw.masked_fill(~ordinary, 2.0)
    chosen = (draw < MASKED_SHARE) | (draw == draw.amin(dim=1, keepdim=True))
    chosen &= ordinary
    labels = input_ids.masked_fill(~chosen, IGNORED_LABEL)
    kind = torch.rand(input_ids.shape, generator=generator).to(device)
    allowed = torch.ones(vocab_size, dtype=torch.bool)
    allowed[specials.cpu()] = False
    pool = allowed.nonzero()[:, 0]
    pick = torch.randint(len(pool), input_ids.shape, generator=generator)
    masked = torch.where(chosen & (kind < 0.8), mask_id, input_ids)
    masked = torch.where(chosen & (kind >= 0.9), pool[pick].to(device), masked)
    return {**batch, "input_ids": masked, "labels": labels}
