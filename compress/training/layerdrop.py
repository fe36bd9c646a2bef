"""LayerDrop: a model that learns to do without any of its layers (Fan et al., 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from compress.models.exits import encoder_layers


@contextmanager
def dropped_layers(model: nn.Module, probability: float) -> Iterator[None]:
    """Skip each layer of a model with a probability, in every training step within the context.

    In eval mode all layers run. The draw is of torch's global generator, which the training loop
    seeds for every step.

    Args:
        model: A transformers model; with a probability of 0 of any family.
        probability: That a layer gives what it got, 0 to below 1.
    """
    layers: Any = encoder_layers(model) if probability else ()
    for layer in layers:
        layer.forward = _dropping(layer, layer.forward, probability)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the class's own is left


def _dropping(
    layer: nn.Module, forward: Callable[..., Tensor], probability: float
) -> Callable[..., Tensor]:
    def run(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if layer.training and float(torch.rand(())) < probability:
            return hidden_states
        return forward(hidden_states, *args, **kwargs)

    return run
