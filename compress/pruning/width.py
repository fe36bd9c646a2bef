"""A narrower model: the dimensions that matter least are gone from every layer.

What the layers hand on is as wide as the model, ``H``. A dimension of it is a column of every
matrix that reads it, a row of every matrix that writes it, an entry of every LayerNorm. Heads keep
their width, so heads go too: transformers has no other word for the width of a head than
``hidden_size / num_attention_heads``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compress.models.architecture import Architecture, architecture_of, student_config
from compress.models.blocks import encoder_blocks
from compress.models.heads import head_places, head_size, pruned_heads
from compress.models.projection import CLASSIFIERS
from compress.models.student import same_parts
from compress.pruning.elements import Elements
from compress.pruning.units import cut_heads

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HIDDEN = "hidden"
Axes = dict[tuple[str, int], str]  # parameter's name and axis: what runs along it


@dataclass(frozen=True, eq=False)
class Narrowed:
    """A narrower model, and what it kept.

    Attributes:
        model: In the mode and on the device of the one that it was made of.
        hidden: Its dimensions, by their numbers in that one, int64 ``[H]``, rising.
        heads: The heads of each layer, by their numbers in that one, rising.
    """

    model: PreTrainedModel
    hidden: Tensor
    heads: list[list[int]]


@torch.no_grad()
def narrow(model: PreTrainedModel, elements: Elements, heads: Tensor, *, count: int) -> Narrowed:
    """Keep the dimensions, and in each layer the heads, that matter most.

    A dimension matters as the sum of its weights over the whole model does. The neurons of a
    classifier's dense layer are as many as dimensions, but are chosen by themselves.

    Args:
        model: Of a family of `compress.pruning.units.PRUNABLE`; left as it is.
        elements: How much each weight matters.
        heads: How much each head matters, ``[layers, heads]``.
        count: Heads of each layer that stay; the width is as many times that of a head.
    """
    size = head_size(model)
    numbers = architecture_of(model.config)
    numbers |= {"hidden_size": count * size, "num_attention_heads": count}
    with torch.random.fork_rng(devices=[]):
        smaller = same_parts(model, student_config(Architecture(**numbers), model.config))
    axes = _axes(model, smaller)
    kept = _chosen(axes, elements, count * size)
    chosen = _chosen_heads(model, heads, count)
    kept |= {_heads_of(layer): head_places(one, size) for layer, one in enumerate(chosen)}
    source = dict(model.named_parameters())
    for name, parameter in smaller.named_parameters():
        values = source[name].detach()
        for axis in range(values.dim()):
            if (name, axis) in axes:
                values = values.index_select(axis, kept[axes[name, axis]].to(values.device))
        parameter.copy_(values)
    smaller.train(model.training).to(model.device)
    if any(pruned_heads(smaller)):
        cut_heads(smaller, pruned_heads(smaller))
    return Narrowed(smaller, kept[HIDDEN], chosen)


def _axes(model: PreTrainedModel, smaller: PreTrainedModel) -> Axes:
    """Say what runs along each axis that gets shorter."""
    shapes = {name: one.shape for name, one in smaller.named_parameters()}
    axes = {
        (name, axis): HIDDEN
        for name, one in model.named_parameters()
        for axis, length in enumerate(one.shape)
        if length != shapes[name][axis]
    }
    names = {id(module): name for name, module in model.named_modules()}
    for layer, block in enumerate(encoder_blocks(model)):
        for linear in (block.query, block.key, block.value):
            for part in ("weight", "bias"):
                axes[f"{names[id(linear)]}.{part}", 0] = _heads_of(layer)
        axes[f"{names[id(block.attention_output)]}.weight", 1] = _heads_of(layer)
    for dense, output in CLASSIFIERS:
        places = [(f"{dense}.weight", 0), (f"{dense}.bias", 0), (f"{output}.weight", 1)]
        if all(place in axes for place in places):
            axes |= dict.fromkeys(places, dense)
    return axes


def _heads_of(layer: int) -> str:
    return f"heads of layer {layer}"


def _chosen(axes: Axes, elements: Elements, count: int) -> dict[str, Tensor]:
    """Choose what stays along the axes of each kind but the heads'."""
    sums: dict[str, Tensor | float] = defaultdict(float)
    for (name, axis), kind in axes.items():
        if not kind.startswith("heads"):
            values = elements[name].movedim(axis, 0)
            sums[kind] = sums[kind] + values.reshape(len(values), -1).sum(dim=1).cpu()
    return {kind: _most(one, count) for kind, one in sums.items() if isinstance(one, Tensor)}


def _chosen_heads(model: PreTrainedModel, heads: Tensor, count: int) -> list[list[int]]:
    """Choose the heads that stay; those that were pruned before go first."""
    weights = heads.clone()
    for layer, gone in enumerate(pruned_heads(model)):
        weights[layer, gone] = -torch.inf
    return [_most(row, count).tolist() for row in weights]


def _most(values: Tensor, count: int) -> Tensor:
    """Give the places of the largest values, rising; of equal ones the first."""
    places: Tensor = values.argsort(descending=True, stable=True)[:count].sort().values
    return places
