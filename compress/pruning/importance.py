"""How much each head, neuron and layer matters: by the gradient of a loss, or by weights alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compress.models.blocks import encoder_blocks, neuron_weights
from compress.models.heads import head_size
from compress.pruning.units import layer_owner

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Importance:
    """Larger matters more; comparable among the layers of a model.

    Attributes:
        heads: float32 ``[layers, heads]``, 0 for a pruned one.
        neurons: float32 ``[layers, neurons]``.
    """

    heads: Tensor
    neurons: Tensor


def magnitude_importance(model: nn.Module) -> Importance:
    """Take the norm of what a unit reads times the norm of what it writes; no data is needed.

    A head reads by its values, and writes by the columns of the output projection.
    """
    size, heads, neurons = head_size(model), [], []
    with torch.no_grad():
        for block in encoder_blocks(model):
            weights = (block.value.weight, block.attention_output.weight.T)  # [A * d, H]
            reads, writes = (one.reshape(-1, size * one.shape[1]).norm(dim=1) for one in weights)
            heads.append(reads * writes)
            neurons.append(neuron_weights(block.up.weight, block.down.weight))
    return comparable(torch.stack(heads), torch.stack(neurons))


def taylor_importance(
    model: nn.Module, batches: Iterable[Batch], loss: Callable[[Batch], Tensor]
) -> Importance:
    """Take the mean over batches of how fast the loss changes with a unit's gate, open at 1.

    A gate is a factor on all that a head or a neuron gives; its gradient is the first-order
    estimate of what closing it does to the loss (Michel et al., 2019).

    Args:
        model: In eval mode.
        batches: Of train rows, at least one.
        loss: Runs the model on a batch and gives a scalar.
    """
    size, blocks = head_size(model), encoder_blocks(model)
    device = blocks[0].up.weight.device

    def gates(widths: list[int]) -> list[Tensor]:
        return [torch.ones(width, device=device, requires_grad=True) for width in widths]

    heads = gates([block.attention_output.in_features // size for block in blocks])
    neurons = gates([block.down.in_features for block in blocks])
    total, count = [torch.zeros_like(gate) for gate in (*heads, *neurons)], 0
    readers = [block.attention_output for block in blocks] + [block.down for block in blocks]
    with _gated(readers, [*heads, *neurons]):
        for count, batch in enumerate(batches, start=1):  # noqa: B007
            for sum_, slope in zip(
                total, torch.autograd.grad(loss(batch), (*heads, *neurons)), strict=True
            ):
                sum_ += slope.abs()
    means = [one.detach() / count for one in total]
    return comparable(torch.stack(means[: len(blocks)]), torch.stack(means[len(blocks) :]))


@contextmanager
def _gated(readers: Sequence[nn.Module], gates: Sequence[Tensor]) -> Iterator[None]:
    """Multiply what each module reads, ``[B, S, width]``, with its gates, each for equal parts."""

    def hook_of(gate: Tensor) -> Any:
        def hook(_module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (args[0] * gate.repeat_interleave(args[0].shape[-1] // len(gate)),)

        return hook

    handles = [
        reader.register_forward_pre_hook(hook_of(gate))
        for reader, gate in zip(readers, gates, strict=True)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def comparable(heads: Tensor, neurons: Tensor) -> Importance:
    """Give every layer the length 1, as Michel et al. do: later layers have larger gradients."""
    return Importance(
        *(nn.functional.normalize(one.float().cpu(), dim=1) for one in (heads, neurons))
    )


@torch.no_grad()
def needed_layers(
    model: nn.Module,
    batches: Sequence[Batch],
    output: Callable[[Batch], Tensor],
    *,
    count: int,
) -> list[int]:
    """Skip one layer after the other, each time that whose absence changes the output least.

    Args:
        model: In eval mode; it is left as it was.
        batches: Of train rows, at least one.
        output: Runs the model on a batch; the same rows and columns each time.
        count: How many layers stay.

    Returns:
        Their numbers, from 0, rising.
    """
    kept = list(range(len(layer_owner(model).layer)))
    while len(kept) > count:
        changes = dict.fromkeys(kept, 0.0)
        for batch in batches:
            whole = output(batch)
            for layer in kept:
                with _layers(model, [one for one in kept if one != layer]):
                    changes[layer] += float((output(batch) - whole).square().mean())
        kept.remove(min(changes, key=lambda layer: changes[layer]))
    return kept


@contextmanager
def _layers(model: nn.Module, kept: list[int]) -> Iterator[None]:
    owner = layer_owner(model)
    layers = owner.layer
    owner.layer = nn.ModuleList([layers[number] for number in kept])
    try:
        yield
    finally:
        owner.layer = layers
