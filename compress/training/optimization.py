"""What the loop needs of an optimizer: AdamW, the rate of a step, bf16, random numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from compress.settings import Scheduler
from edgebert.errors import InputError


def build_optimizer(module: nn.Module, *, weight_decay: float) -> torch.optim.AdamW:
    """Make a fused AdamW (Loshchilov and Hutter, 2019) over all parameters with a gradient.

    Biases and the weights of LayerNorms, all parameters of one dimension, are not decayed.

    Raises:
        InputError: Nothing in ``module`` is trainable.
    """
    trainable = [p for p in module.parameters() if p.requires_grad]
    if not trainable:
        raise InputError("No parameter is trainable; set requires_grad on those to train.")
    groups = [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], fused=True)


def learning_rate(
    step: int, total: int, *, peak: float, warmup_ratio: float, scheduler: Scheduler
) -> float:
    """Give the rate of a step: up in a line from peak/warmup, then down to almost 0.

    Args:
        step: From 0.
        total: Steps in all.
        peak: Reached with the last step of the warm-up.
        warmup_ratio: Part of the steps in which the rate rises, rounded up.
        scheduler: ``linear``, ``cosine`` (half a wave) or ``constant``.
    """
    warmup = math.ceil(total * warmup_ratio)
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, total - warmup)  # 0 to below 1
    if scheduler == "linear":
        return peak * (1 - done)
    return peak * (1 + math.cos(math.pi * done)) / 2 if scheduler == "cosine" else peak


def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float) -> Tensor:
    """Scale gradients down to a common norm, and give the norm they had.

    On a CPU nothing is multiplied when nothing is to be clipped: for 22 million parameters that
    takes 3 ms instead of 11.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    if norm.device.type != "cpu" or norm > max_norm:  # a GPU would have to be waited for
        nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def native_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware; emulated it is slower."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@contextmanager
def plain_attention(module: nn.Module, *, enabled: bool = True) -> Iterator[None]:
    """Let the models in a module compute attention by plain matrix products, for a while.

    For training in bfloat16 on a CPU, where the gradient of torch's fused attention takes seven
    times as long (2.13: 24 ms, not 3.5, for 32 rows of 14 tokens with 12 heads on one core).

    Args:
        module: What holds the models; afterwards they compute it as before.
        enabled: Else nothing is changed.
    """
    models = [one for one in module.modules() if enabled and isinstance(one, PreTrainedModel)]
    before = [one.config._attn_implementation for one in models]
    for model in models:
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        for model, name in zip(models, before, strict=True):
            model.set_attn_implementation(name)


def seed_step(seed: int, step: int) -> None:
    """Seed the global generators of torch, numpy and Python for one step.

    A step's dropout is then a function of the two numbers alone: what ran before, a measurement or
    an earlier process, has no say.
    """
    state = int(np.random.SeedSequence((seed, step)).generate_state(1, np.uint64)[0])
    torch.manual_seed(state)
    np.random.seed(state % 2**32)
    random.seed(state)
