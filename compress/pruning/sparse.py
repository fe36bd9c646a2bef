"""Single weights that become zero, more of them with every step of a training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from compress.models.blocks import encoder_blocks

GROWS = 0.75  # part of a training in which zeros grow; the rest recovers with those that are
UPDATES = 100  # masks that are made in that time, at most: making one costs a sort of all weights
_PASSES = "pruning_passes"  # a buffer of the model, so that a checkpoint has it


def cubic_sparsity(done: int, passes: int, *, final: float) -> float:
    """Give the sparsity after some training passes: it rises fast, then ever slower.

    ``final * (1 - (1 - t) ** 3)`` (Zhu and Gupta, 2017), t going from 0 to 1 in the first three
    quarters.

    Args:
        done: Passes before this one.
        passes: In all, 2 or more.
        final: Sparsity at the end.
    """
    return final * (1 - (1 - min(1.0, done / _growing(passes))) ** 3)


def _growing(passes: int) -> int:
    return max(1, round(GROWS * (passes - 1)))


class WeightMask(nn.Module):
    """Multiplies a matrix with 0 and 1, and learns how its weights move if that is asked for.

    Attributes:
        mask: bool, in the matrix' shape; what is False is zero.
        movement: The sum of ``-w * dL/dw`` over all passes, ``w`` the weight behind the mask and
            ``dL/dw`` the slope of what is in front of it, so that a masked weight can come back
            (Sanh et al., 2020); None where magnitude counts.
    """

    mask: Tensor
    movement: Tensor | None

    def __init__(self, weight: Tensor, *, moves: bool) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones_like(weight, dtype=torch.bool))
        self.register_buffer("movement", torch.zeros_like(weight) if moves else None)

    def forward(self, weight: Tensor) -> Tensor:
        """Give the masked matrix."""
        masked = weight * self.mask
        movement = self.movement
        if movement is not None and self.training and masked.requires_grad:
            before = weight.detach()

            def follow(slope: Tensor) -> None:
                movement.sub_(slope * before)

            masked.register_hook(follow)  # type: ignore[no-untyped-call]
        return masked

    def renew(self, weight: Tensor, sparsity: float) -> None:
        """Mask the part of the weights that matters least now."""
        scores = weight.abs() if self.movement is None else self.movement
        self.mask.copy_(_kept(scores, sparsity))


@contextmanager
def growing_zeros(
    model: nn.Module,
    *,
    sparsity: float,
    passes: int,
    importance: Literal["magnitude", "movement"],
) -> Iterator[None]:
    """Let zeros grow in each matrix of the layers while a model is trained within the context.

    Masks and counts are buffers of the model, so a checkpoint of a training has them. At the end
    they are gone, and the weights have their zeros. Embeddings and heads are left alone.

    Args:
        model: Of a family of `compress.models.blocks.LAYOUTS`.
        sparsity: Part of each matrix that is zero at last.
        passes: How often the model will run in training, 2 or more.
        importance: What says which weights matter least.
    """
    linears = [linear for block in encoder_blocks(model) for linear in block.linears]
    masks = []
    for linear in linears:
        masks.append(WeightMask(linear.weight.detach(), moves=importance == "movement"))
        parametrize.register_parametrization(linear, "weight", masks[-1])
    device = linears[0].bias.device
    model.register_buffer(_PASSES, torch.zeros((), dtype=torch.int64, device=device))
    handle = model.register_forward_pre_hook(_renewal(linears, masks, sparsity, passes))
    try:
        yield
    finally:
        handle.remove()
        delattr(model, _PASSES)
        for linear in linears:
            parametrize.remove_parametrizations(linear, "weight", leave_parametrized=True)


def _renewal(
    linears: Sequence[nn.Linear], masks: Sequence[WeightMask], sparsity: float, passes: int
) -> Callable[[nn.Module, object], None]:
    """Make the hook that renews the masks before a pass of a training, and counts it."""
    growing = _growing(passes)
    every = max(1, growing // UPDATES)

    def before_pass(module: nn.Module, _args: object) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        done = int(module.get_buffer(_PASSES))
        if done <= growing and (done % every == 0 or done == growing):
            goal = cubic_sparsity(done, passes, final=sparsity)
            for linear, mask in zip(linears, masks, strict=True):
                mask.renew(_behind(linear), goal)
        module.get_buffer(_PASSES).add_(1)

    return before_pass


def _behind(linear: nn.Linear) -> Tensor:
    """Give the weights behind the mask."""
    found: Tensor = linear.parametrizations.weight.original  # type: ignore[union-attr, assignment]
    return found.detach()


@torch.no_grad()
def zero_weights(model: nn.Module, sparsity: float) -> None:
    """Make the smallest weights of each matrix of the layers zero, in place."""
    for block in encoder_blocks(model):
        for linear in block.linears:
            linear.weight.mul_(_kept(linear.weight.abs(), sparsity))


@torch.no_grad()
def zero_share(model: nn.Module) -> tuple[int, int]:
    """Count the zeros in the matrices of the layers, and all that these hold."""
    weights = [linear.weight for block in encoder_blocks(model) for linear in block.linears]
    zeros = sum(int((weight == 0).sum()) for weight in weights)
    return zeros, sum(weight.numel() for weight in weights)


def gzip_bytes(directory: Path) -> int:
    """Give the size that a checkpoint's weights would have as .gz files."""
    total = 0
    for path in sorted(directory.glob("model*.safetensors")):
        packer = zlib.compressobj(6, wbits=31)  # with the header of gzip
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total += len(packer.compress(block))
        total += len(packer.flush())
    return total


def _kept(scores: Tensor, sparsity: float) -> Tensor:
    """Give False for the part with the lowest scores, in the shape of the scores."""
    count = round(sparsity * scores.numel())
    kept = torch.ones(scores.numel(), dtype=torch.bool, device=scores.device)
    kept[scores.flatten().topk(count, largest=False).indices] = False
    return kept.view(scores.shape)
