"""Heads, neurons and layers: how many there are, which go, and the model without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from compress.models.architecture import PRUNED_HEADS, intermediate_name
from compress.models.blocks import (
    LAYOUTS,
    SHARING,
    encoder_blocks,
    keep_inputs,
    keep_outputs,
    model_type,
)
from compress.models.heads import head_size, pruned_heads, zero_heads
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PRUNABLE = tuple(family for family in LAYOUTS if family not in SHARING)
FP32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a model has that can be cut.

    Attributes:
        layers: Whole ones.
        heads: Of each layer that aren't pruned.
        neurons: Of each layer.
        hidden_size: Of the model.
        head_size: Of one head.
        head_params: Of one head.
        neuron_params: Of one neuron.
        params: Of the model, the zeros of pruned heads left out.
        layer_params: Of its layers alone.
        zeros: Of pruned heads.
    """

    layers: int
    heads: tuple[int, ...]
    neurons: int
    hidden_size: int
    head_size: int
    head_params: int
    neuron_params: int
    params: int
    layer_params: int
    zeros: int


def shape_of(model: PreTrainedModel) -> Shape:
    """Count what a model has.

    Raises:
        ModelError: It has no list of layers.
    """
    config: Any = model.config
    layers, width, size = layer_list(model), int(config.hidden_size), head_size(model)
    pruned = pruned_heads(model) or [[]] * len(layers)
    head_params = 3 * size * (width + 1) + width * size  # query, key, value; what reads the head
    zeros = sum(map(len, pruned)) * head_params
    return Shape(
        layers=len(layers),
        heads=tuple(int(config.num_attention_heads) - len(gone) for gone in pruned),
        neurons=int(getattr(config, intermediate_name(config))),
        hidden_size=width,
        head_size=size,
        head_params=head_params,
        neuron_params=2 * width + 1,
        params=_count(model) - zeros,
        layer_params=_count(layers) - zeros,
        zeros=zeros,
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def layer_owner(model: nn.Module) -> Any:
    """Find the module whose ``layer`` lists the encoder's layers.

    Raises:
        ModelError: There is none, or its layers share weights.
    """
    for module in model.modules() if model_type(model) not in SHARING else ():
        layers = dict(module.named_children()).get("layer")
        if isinstance(layers, nn.ModuleList) and len(layers) == model.config.num_hidden_layers:  # type: ignore[union-attr]
            return module
    raise ModelError(
        f"The layers of the family {model_type(model)!r} share weights, so nothing can be cut out "
        "of them; prune the model that it was made of, or distill it into a smaller student."
    )


def layer_list(model: nn.Module) -> nn.ModuleList:
    """Give the encoder's layers."""
    layers: nn.ModuleList = layer_owner(model).layer
    return layers


def choose_heads(importance: Tensor, pruned: list[list[int]], count: int) -> list[list[int]]:
    """Choose the heads that matter least over all layers, but never a layer's last one.

    Args:
        importance: ``[layers, heads]``, comparable among layers.
        pruned: Heads of each layer that are gone already.
        count: How many more go.

    Returns:
        Heads of each layer that are gone then, rising.
    """
    gone = [list(heads) for heads in pruned]
    width = importance.shape[1]
    for place in importance.flatten().argsort(stable=True).tolist():
        layer, head = divmod(int(place), width)
        if count > 0 and head not in gone[layer] and len(gone[layer]) < width - 1:
            gone[layer].append(head)
            count -= 1
    return [sorted(heads) for heads in gone]


@torch.no_grad()
def cut_heads(model: PreTrainedModel, gone: list[list[int]]) -> None:
    """Make heads zero and note them in the configuration; see `zero_heads`."""
    zero_heads(model, gone)
    noted = {str(layer): heads for layer, heads in enumerate(pruned_heads(model)) if heads}
    setattr(model.config, PRUNED_HEADS, noted)


@torch.no_grad()
def cut_neurons(model: PreTrainedModel, importance: Tensor, count: int) -> None:
    """Keep the neurons of each layer that matter most, in their order, in place.

    Args:
        model: Of a family of `PRUNABLE`.
        importance: ``[layers, neurons]``.
        count: How many of each layer stay.
    """
    for block, weights in zip(encoder_blocks(model), importance, strict=True):
        kept = weights.topk(count).indices.sort().values.to(block.up.weight.device)
        keep_outputs(block.up, kept)
        keep_inputs(block.down, kept)
    setattr(model.config, intermediate_name(model.config), count)


def cut_layers(model: PreTrainedModel, kept: list[int]) -> None:
    """Keep some layers, from 0, in place."""
    owner = layer_owner(model)
    owner.layer = nn.ModuleList([owner.layer[number] for number in kept])
    model.config.num_hidden_layers = len(kept)
    if hasattr(model.config, PRUNED_HEADS):
        cut_heads(model, pruned_heads(model))
