"""Quantization-aware training: a model computes with the numbers that engines will have.

While a model is trained, its matrices, its embedding tables and what enters its matrix products are
rounded as an INT8 or INT4 artifact rounds them, and gradients pass as if they weren't (the
straight-through estimator of Bengio et al., 2013; integers in training as in Jacob et al., 2018).
The rounding is that of `compress.artifacts`:

- Matrices: a row, all that makes one output, has the scale ``max|w| / 127``; in INT4 each 32
  neighbours of a row have their own, ``max|w| / 7`` in float16.
- Tables: a token's row has the scale ``max|w| / 127``, in INT4 artifacts too.
- What a product is fed with, in INT8 alone: 256 steps from the smallest number to the largest, zero
  among them, found anew for each text (as ONNX Runtime's dynamic INT8 does, a text a call) or for
  each token (as LiteRT's does).

Parameters, their names and their places stay those of the plain model, so optimizer, checkpoints,
hashes and hooks know nothing of it. At the end the weights take their rounded values: what was
measured in training is then the plain model itself, and rounding it again changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Rows = Literal["text", "token"]

_STEPS = 127  # of signed INT8, from 0 to the largest
_LEVELS = 255  # of unsigned INT8, from the smallest to the largest
_LEAST_HALF = 2.0**-14  # of a scale in 16 bits: below it there are fewer of them


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What an artifact rounds beside its tables, and how finely.

    Attributes:
        steps: Of a matrix' numbers, from 0 to the largest.
        block: How many neighbours in a row share a scale; None for the whole row.
        activations: What shares a scale of what a product is fed with; None where that stays FP32.
    """

    steps: int
    block: int | None = None
    activations: Rows | None = None


ROUNDINGS: dict[str, Rounding | None] = {
    "none": None,
    # A text's scale is coarser than those of its tokens: who stands the one stands the other.
    "int8": Rounding(steps=_STEPS, activations="text"),
    "int4": Rounding(steps=7, block=32),
}
"""By the values of ``--quantization-aware``."""


@contextmanager
def fake_quantized(models: Iterable[nn.Module | None], rounding: Rounding | None) -> Iterator[None]:
    """Let models compute in rounded numbers within the context; without an error they keep them.

    Args:
        models: Transformers models and others with matrices, like Dense modules; None is skipped.
        rounding: How; None for not at all.
    """
    if rounding is None:
        yield
        return
    parts = [part for model in models if model is not None for part in model.modules()]
    seen = _Seen()
    encoders = [part for part in parts if getattr(part, "base_model", None) is part]
    handles = [one.register_forward_pre_hook(seen.look, with_kwargs=True) for one in encoders]
    changed = [part for part in parts if isinstance(part, (nn.Linear, nn.Embedding))]
    for part in changed:
        setattr(part, "forward", _rounded_forward(part, rounding, seen))  # noqa: B010  a method
    try:
        yield
        _keep_rounded(changed, rounding)
    finally:
        for part in changed:
            del part.forward  # the class' own is seen again
        for handle in handles:
            handle.remove()


@torch.no_grad()
def _keep_rounded(parts: Iterable[nn.Linear | nn.Embedding], rounding: Rounding) -> None:
    """Give weights their rounded values; a table that is a head's matrix too keeps 8 bits."""
    done = set[int]()
    for part in sorted(parts, key=lambda part: isinstance(part, nn.Linear)):  # tables first
        if id(part.weight) not in done:
            done.add(id(part.weight))
            part.weight.copy_(_rounded(part, rounding))


def _rounded(part: nn.Linear | nn.Embedding, rounding: Rounding) -> Tensor:
    if isinstance(part, nn.Embedding):
        return round_weight(part.weight, steps=_STEPS)
    return round_weight(part.weight, steps=rounding.steps, block=rounding.block)


class _Seen:
    """Keeps the mask of what an encoder runs on, int64 ``[B, S]``."""

    mask: Tensor | None = None

    def look(self, encoder: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        bound = inspect.signature(encoder.forward).bind(*given, **named)
        self.mask = bound.arguments.get("attention_mask")


def _rounded_forward(
    part: nn.Linear | nn.Embedding, rounding: Rounding, seen: _Seen
) -> Callable[[Tensor], Tensor]:
    if isinstance(part, nn.Embedding):
        look_up = part.forward
        return lambda input_ids: round_weight(look_up(input_ids), steps=_STEPS)

    def multiply(inputs: Tensor) -> Tensor:
        if rounding.activations is not None:
            inputs = round_activations(inputs, rows=rounding.activations, mask=seen.mask)
        return F.linear(inputs, _rounded(part, rounding), part.bias)

    return multiply


def round_weight(weight: Tensor, *, steps: int, block: int | None = None) -> Tensor:
    """Round rows to whole multiples of their scales; gradients pass.

    Args:
        weight: ``[..., in]``.
        steps: The largest multiple.
        block: How many neighbours in a row share a scale, which is a float16 then; None for all.
    """
    width = weight.shape[-1]
    with torch.no_grad():
        rows = weight.float()
        if block is not None:
            rows = F.pad(rows, (0, -width % block))
            rows = rows.view(*rows.shape[:-1], -1, block)
        scale = rows.abs().amax(dim=-1, keepdim=True) / steps
        if block is not None:
            scale = scale.clamp(min=_LEAST_HALF).half().float()
        rows = torch.round(rows / torch.where(scale == 0, 1.0, scale)) * scale
        if block is not None:
            rows = rows.flatten(-2)[..., :width]
    return _straight_through(weight, rows)


def round_activations(values: Tensor, *, rows: Rows, mask: Tensor | None = None) -> Tensor:
    """Round what a product is fed with to 256 steps, zero among them; gradients pass.

    Args:
        values: ``[B, S, H]``, or ``[B, H]`` with one vector a text.
        rows: What shares a scale.
        mask: 1 for a real token, ``[B, S]``; padding has no say in a text's scale.
    """
    with torch.no_grad():
        whole = values.float()
        real = whole
        if mask is not None and mask.shape == values.shape[:-1]:
            real = whole * mask[..., None]
        axes = tuple(range(1, values.dim())) if rows == "text" else (-1,)
        least = real.amin(dim=axes, keepdim=True).clamp(max=0)
        most = real.amax(dim=axes, keepdim=True).clamp(min=0)
        scale = (most - least) / _LEVELS
        scale = torch.where(scale == 0, 1.0, scale)
        zero = torch.round(-least / scale)
        steps = (torch.round(whole / scale) + zero).clamp(0, _LEVELS) - zero
    return _straight_through(values, steps * scale)


class _PassGradient(torch.autograd.Function):
    """Gives its second argument, and its gradient to the first."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rounded: Tensor) -> Tensor:  # noqa: ARG004
        return rounded

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004
        return gradients[0], None


def _straight_through(values: Tensor, rounded: Tensor) -> Tensor:
    found: Tensor = _PassGradient.apply(  # type: ignore[no-untyped-call]
        values, rounded.to(values.dtype)
    )
    return found
