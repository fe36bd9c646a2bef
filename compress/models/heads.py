"""Attention heads that add nothing: told by their zeros, and taken out of the matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from compress.models.blocks import (
    LAYOUTS,
    Block,
    encoder_blocks,
    keep_inputs,
    keep_outputs,
    model_type,
)
from compress.models.capture import attention_modules

# What the families call the number of heads, and their width together.
_COUNTS, _WIDTHS = ("num_attention_heads", "n_heads"), ("all_head_size", "dim")


def head_size(model: nn.Module) -> int:
    """Give the width of one attention head."""
    config = model.config
    return int(config.hidden_size) // int(config.num_attention_heads)  # type: ignore[union-attr, arg-type]


def pruned_heads(model: nn.Module) -> list[list[int]]:
    """List the heads, from 0, of each layer whose output nothing reads: all its columns are 0.

    Families whose layers can't be taken apart have no list.
    """
    if model_type(model) not in LAYOUTS:
        return []
    size = head_size(model)
    return [
        [
            head
            for head, columns in enumerate(torch.split(block.attention_output.weight, size, dim=1))
            if not columns.any()
        ]
        for block in encoder_blocks(model)
    ]


@torch.no_grad()
def zero_heads(model: nn.Module, heads: list[list[int]]) -> None:
    """Make some heads add nothing: their queries, keys, values and what reads them become 0.

    Their gradients are 0 from then on, so a training leaves them as they are.

    Args:
        model: Of a family of `LAYOUTS`; its shapes stay.
        heads: From 0, by layer.
    """
    for block, gone in zip(encoder_blocks(model), heads, strict=True):
        places = head_places(gone, head_size(model), device=block.query.weight.device)
        for linear in (block.query, block.key, block.value):
            linear.weight[places] = 0
            linear.bias[places] = 0
        block.attention_output.weight[:, places] = 0


def drop_pruned_heads(model: nn.Module) -> None:
    """Take the heads of `pruned_heads` out of a model's matrices, in place; one stays in any case.

    Its configuration stays, so the model can't be saved and loaded afterwards.
    """
    size, heads = head_size(model) if model_type(model) in LAYOUTS else 0, pruned_heads(model)
    if not any(heads):
        return
    layers = zip(encoder_blocks(model), heads, strict=True)
    blocks = {id(block.query): (block, gone) for block, gone in layers}  # shared ones once
    for (module, _), (block, gone) in zip(attention_modules(model), blocks.values(), strict=True):
        count = block.query.out_features // size
        kept = [head for head in range(count) if head not in gone] or [0]
        _keep_heads(block, head_places(kept, size, device=block.query.weight.device))
        for names, number in ((_COUNTS, len(kept)), (_WIDTHS, len(kept) * size)):
            for name in names:
                if hasattr(module, name):
                    setattr(module, name, number)


def _keep_heads(block: Block, places: Tensor) -> None:
    for linear in (block.query, block.key, block.value):
        keep_outputs(linear, places)
    keep_inputs(block.attention_output, places)


def head_places(heads: list[int], size: int, *, device: torch.device | str = "cpu") -> Tensor:
    """List the places of some heads within the width of all, int64 ``[heads * size]``."""
    places = [place for head in heads for place in range(head * size, (head + 1) * size)]
    return torch.tensor(places, dtype=torch.int64, device=device)
