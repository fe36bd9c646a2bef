"""How many heads, neurons, layers and dimensions go for what is asked."""

from __future__ import annotations

from dataclasses import dataclass

from compress.pruning.config import PruneConfig, Units, parse_size
from compress.pruning.units import FP32_BYTES, PRUNABLE, Shape
from edgebert.errors import InputError, ModelError


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many of each kind go.

    Attributes:
        heads: Over all layers.
        neurons: Out of every layer.
        layers: Whole ones.
        widths: Heads out of every layer, with as much of the hidden size as they are wide.
    """

    heads: int = 0
    neurons: int = 0
    layers: int = 0
    widths: int = 0

    def part(self, number: int, rounds: int) -> Plan:
        """Say how many are gone after some of several rounds of about the same size."""
        return Plan(**{name: round(all_ * number / rounds) for name, all_ in vars(self).items()})


def make_plan(shape: Shape, config: PruneConfig, *, family: str) -> Plan:
    """Say how many heads, neurons, layers and dimensions go in all.

    Nothing is planned for ``unstructured``. ``target_speedup`` has no plan without a measurement:
    `compress.distillation.pruning_speedup` looks for its sparsity.

    Args:
        shape: Of the model as it was given.
        config: What is asked.
        family: The model's, like ``bert``.

    Raises:
        ModelError: Of this family only whole layers can be cut, or it has none.
        InputError: So much can't be cut.
    """
    if not shape.layers:
        raise ModelError(
            "A static model has no layers to prune; cut its vocabulary with compress.trim, or make "
            "a narrower one with compress.distill --student static-64d."
        )
    if config.num_hidden_layers is not None:
        if config.num_hidden_layers >= shape.layers:
            raise InputError(
                f"num_hidden_layers must be below the model's {shape.layers}, got "
                f"{config.num_hidden_layers}."
            )
        return Plan(layers=shape.layers - config.num_hidden_layers)
    if family not in PRUNABLE:
        raise ModelError(
            f"Of a {family!r} only whole layers can be cut: give --num-hidden-layers. Heads, "
            f"neurons, the hidden size and single weights go out of {', '.join(PRUNABLE)}."
        )
    if config.hidden_size is not None:
        return _plan_width(shape, config.hidden_size)
    if config.target_size is not None:
        return _plan_size(shape, parse_size(config.target_size))
    if config.sparsity is None or config.unstructured:
        return Plan()
    return plan_sparsity(shape, config.sparsity, config.units)


def plan_sparsity(shape: Shape, sparsity: float, units: Units) -> Plan:
    """Take the same part of heads and of neurons; neurons make up for what isn't cut besides.

    Raises:
        InputError: A layer would lose its last head or neuron.
    """
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
        raise InputError(
            f"sparsity {sparsity} is more than --units {units} can give, as each layer keeps one "
            f"of each; the most is {most_sparsity(shape, units)}. Cut whole layers with "
            "--num-hidden-layers, or distill into a smaller student."
        )
    return Plan(heads=heads, neurons=neurons)


def most_sparsity(shape: Shape, units: Units) -> float:
    """Give the sparsity that leaves each layer one of each kind, rounded down to 3 digits."""
    spare = sum(shape.heads) - shape.layers
    most = (units != "neurons") * spare * shape.head_params
    most += (units != "heads") * (shape.neurons - 1) * shape.layers * shape.neuron_params
    return int(1000 * most / shape.layer_params) / 1000


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


def _plan_width(shape: Shape, hidden_size: int) -> Plan:
    """Take whole heads with the width: a head keeps its width, which transformers derives.

    It computes ``hidden_size / num_attention_heads``, so another width of the model with heads as
    wide as before means as many heads fewer.
    """
    size, width = shape.head_size, shape.hidden_size
    if hidden_size >= width:
        raise InputError(f"hidden_size must be below the model's {width}, got {hidden_size}.")
    if hidden_size % size:
        below = hidden_size // size * size
        near = [str(one) for one in (below, below + size) if 0 < one < width]
        raise InputError(
            f"hidden_size must be a multiple of {size}, the width of a head, as transformers takes "
            f"hidden_size / num_attention_heads for it; got {hidden_size}. "
            + (f"Nearest: {' or '.join(near)}." if near else "This model has no such width.")
        )
    return Plan(widths=(width - hidden_size) // size)
