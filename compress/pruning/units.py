"""How many heads, neurons and layers go for what is asked, and which those are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from compress.models.architecture import PRUNED_HEADS, intermediate_name
from compress.models.blocks import LAYOUTS, encoder_blocks, keep_inputs, keep_outputs, model_type
from compress.models.heads import head_size, pruned_heads, zero_heads
from compress.pruning.config import PruneConfig, Units, parse_size
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PRUNABLE = tuple(family for family in LAYOUTS if family != "albert")  # its layers are one
FP32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many of each kind go.

    Attributes:
        heads: Over all layers.
        neurons: Out of every layer.
        layers: Whole ones.
    """

    heads: int = 0
    neurons: int = 0
    layers: int = 0

    def part(self, number: int, rounds: int) -> Plan:
        """Say how many are gone after some of several rounds of about the same size."""
        return Plan(**{name: round(all_ * number / rounds) for name, all_ in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a model has that can be cut.

    Attributes:
        layers: Whole ones.
        heads: Of each layer that aren't pruned.
        neurons: Of each layer.
        head_params: Of one head.
        neuron_params: Of one neuron.
        params: Of the model, the zeros of pruned heads left out.
        layer_params: Of its layers alone.
        zeros: Of pruned heads.
    """

    layers: int
    heads: tuple[int, ...]
    neurons: int
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
        ModelError: There is none.
    """
    for module in model.modules():
        layers = dict(module.named_children()).get("layer")
        if isinstance(layers, nn.ModuleList) and len(layers) == model.config.num_hidden_layers:  # type: ignore[union-attr]
            return module
    raise ModelError(
        f"The layers of the family {model_type(model)!r} are one that runs again and again, so "
        "nothing can be cut out of them; distill the model into a smaller student instead."
    )


def layer_list(model: nn.Module) -> nn.ModuleList:
    """Give the encoder's layers."""
    layers: nn.ModuleList = layer_owner(model).layer
    return layers


def make_plan(shape: Shape, config: PruneConfig, *, family: str) -> Plan:
    """Say how many heads, neurons and layers go in all.

    Args:
        shape: Of the model as it was given.
        config: What is asked.
        family: The model's, like ``bert``.

    Raises:
        ModelError: Of this family only whole layers can be cut.
        InputError: So much can't be cut.
    """
    if config.num_hidden_layers is not None:
        if config.num_hidden_layers >= shape.layers:
            raise InputError(
                f"num_hidden_layers must be below the model's {shape.layers}, got "
                f"{config.num_hidden_layers}."
            )
        return Plan(layers=shape.layers - config.num_hidden_layers)
    if family not in PRUNABLE:
        raise ModelError(
            f"Of a {family!r} only whole layers can be cut: give --num-hidden-layers. Heads and "
            f"neurons go out of {', '.join(PRUNABLE)}."
        )
    if config.target_size is not None:
        return _plan_size(shape, parse_size(config.target_size))
    return _plan_sparsity(shape, config.sparsity or 0, config.units)


def _plan_sparsity(shape: Shape, sparsity: float, units: Units) -> Plan:
    """Take the same part of heads and of neurons; neurons make up for what isn't cut besides."""
    goal = sparsity * shape.layer_params
    spare = sum(shape.heads) - shape.layers  # each layer keeps a head
    heads = 0
    if units == "all":
        heads = min(round(sparsity * sum(shape.heads)), spare)
    elif units == "heads":
        heads = round(goal / shape.head_params)
    rest = goal - heads * shape.head_params
    neurons = 0 if units == "heads" else round(rest / (shape.layers * shape.neuron_params))
    neurons = max(neurons, 0)
    if heads > spare or neurons >= shape.neurons:
        most = (units != "neurons") * spare * shape.head_params
        most += (units != "heads") * (shape.neurons - 1) * shape.layers * shape.neuron_params
        raise InputError(
            f"sparsity {sparsity} is more than --units {units} can give, as each layer keeps one "
            f"of each; the most is {int(1000 * most / shape.layer_params) / 1000}. Cut whole "
            "layers with --num-hidden-layers, or distill into a smaller student."
        )
    return Plan(heads=heads, neurons=neurons)


def _plan_size(shape: Shape, target_bytes: int) -> Plan:
    """Take neurons alone: the zeros of a pruned head stay in a checkpoint."""
    params = shape.params + shape.zeros
    a_row = shape.layers * shape.neuron_params
    neurons = -(-(FP32_BYTES * params - target_bytes) // (FP32_BYTES * a_row))
    if neurons < 1:
        raise InputError(
            f"The model's FP32 weights are {FP32_BYTES * params / 1e6:g} MB, so target_size "
            f"{target_bytes / 1e6:g} MB cuts nothing; give less."
        )
    if neurons >= shape.neurons:
        least = FP32_BYTES * (params - (shape.neurons - 1) * a_row)
        raise InputError(
            f"target_size {target_bytes / 1e6:g} MB is less than the {least / 1e6:.3f} MB without "
            "all neurons but one of each layer. Cut the vocabulary first (compress.trim), or "
            "distill into a smaller student."
        )
    return Plan(neurons=neurons)


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
