"""How much every single weight matters; sums of these are how much a dimension matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from compress.models.blocks import encoder_blocks
from compress.models.heads import head_size
from compress.pruning.importance import Importance, comparable
from compress.training.optimization import build_optimizer, clip_gradients

Batch = Mapping[str, Tensor]
Elements = dict[str, Tensor]  # by the parameter's name, in its shape


@torch.no_grad()
def magnitude_elements(model: nn.Module) -> Elements:
    """Take the square of each weight as a part of all squares of its parameter.

    So a large table counts as much as a small matrix.
    """
    return {
        name: weight.square() / weight.square().sum().clamp(min=1e-30)
        for name, weight in model.named_parameters()
    }


def taylor_elements(
    model: nn.Module, batches: Iterable[Batch], loss: Callable[[Batch], Tensor]
) -> Elements:
    """Take the mean over batches of ``|w * dL/dw|``: what zeroing a weight does to the loss.

    The first-order estimate of Molchanov et al. (2017), weight by weight.

    Args:
        model: In eval mode.
        batches: Of train rows, at least one.
        loss: Runs the model on a batch and gives a scalar.
    """
    named = dict(model.named_parameters())
    total, count = {name: torch.zeros_like(weight) for name, weight in named.items()}, 0
    for count, batch in enumerate(batches, start=1):  # noqa: B007
        for name, slope in _slopes(named, loss(batch)).items():
            total[name] += (named[name].detach() * slope).abs()
    return {name: values / count for name, values in total.items()}


def movement_elements(
    model: nn.Module,
    batches: Iterable[Batch],
    loss: Callable[[Batch], Tensor],
    *,
    learning_rate: float,
    max_grad_norm: float,
) -> Elements:
    """Fine-tune a model and sum ``-w * dL/dw`` over the steps (Sanh et al., 2020).

    The sum is above 0 for weights that leave 0, below it for those that go there.

    Args:
        model: In eval mode; it is changed, so give a copy.
        batches: Of train rows, one a step, at least one.
        loss: Runs the model on a batch and gives a scalar.
        learning_rate: Of AdamW, the same in every step.
        max_grad_norm: Gradients are clipped to this norm, after they were added up.
    """
    named = dict(model.named_parameters())
    total = {name: torch.zeros_like(weight) for name, weight in named.items()}
    optimizer = build_optimizer(model, weight_decay=0.0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    for batch in batches:
        for name, slope in _slopes(named, loss(batch)).items():
            total[name] -= named[name].detach() * slope
            named[name].grad = slope
        clip_gradients(list(named.values()), max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return total


def movement_importance(model: nn.Module, elements: Elements) -> Importance:
    """Sum movement over the weights that read a head or a neuron.

    That sum is the movement of a gate on the unit, as the slope over a gate is that of all weights
    behind it (compare Lagunas et al., 2021, who score blocks).

    Args:
        model: Whose weights were scored.
        elements: What `movement_elements` gives.
    """
    names = {id(weight): name for name, weight in model.named_parameters()}
    size, heads, neurons = head_size(model), [], []
    for block in encoder_blocks(model):
        out = elements[names[id(block.attention_output.weight)]].sum(dim=0)  # [A * d]
        heads.append(out.reshape(-1, size).sum(dim=1))
        neurons.append(elements[names[id(block.down.weight)]].sum(dim=0))
    return comparable(torch.stack(heads), torch.stack(neurons))


def _slopes(named: Mapping[str, Tensor], loss: Tensor) -> Elements:
    """Give the gradients of a loss; a parameter that it doesn't use has none."""
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: slope for name, slope in zip(named, found, strict=True) if slope is not None}
