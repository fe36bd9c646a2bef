from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from compress.training.optimization import (
    build_optimizer,
    clip_gradients,
    learning_rate,
    native_bf16,
    plain_attention,
    seed_step,
)
from edgebert.errors import InputError


def rates(scheduler: str, total: int, warmup_ratio: float) -> list[float]:
    return [
        learning_rate(s, total, peak=1.0, warmup_ratio=warmup_ratio, scheduler=scheduler)
        for s in range(total)
    ]


def test_linear_rises_to_the_peak_and_falls_in_even_steps():
    assert rates("linear", 6, 0.3) == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25])


def test_cosine_is_at_half_the_peak_half_way():
    assert rates("cosine", 4, 0.0) == pytest.approx([1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5])


def test_constant_stays_at_the_peak_after_the_warm_up():
    assert rates("constant", 4, 0.5) == pytest.approx([0.5, 1.0, 1.0, 1.0])


def test_biases_and_layer_norms_are_not_decayed():
    module = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    decayed, plain = build_optimizer(module, weight_decay=0.1).param_groups
    assert [tuple(p.shape) for p in decayed["params"]] == [(3, 3)]
    assert decayed["weight_decay"] == 0.1
    assert [tuple(p.shape) for p in plain["params"]] == [(3,), (3,), (3,)]
    assert plain["weight_decay"] == 0.0


def test_a_frozen_parameter_is_left_out():
    module = nn.Linear(3, 3)
    module.bias.requires_grad_(False)
    groups = build_optimizer(module, weight_decay=0.1).param_groups
    assert sum(len(group["params"]) for group in groups) == 1


def test_nothing_to_train_is_refused():
    with pytest.raises(InputError, match="No parameter is trainable"):
        build_optimizer(nn.Linear(2, 2).requires_grad_(False), weight_decay=0.1)


@pytest.mark.parametrize(("max_norm", "left"), [(1.0, [0.6, 0.8]), (6.0, [3.0, 4.0])])
def test_gradients_are_scaled_down_to_the_norm_and_never_up(max_norm, left):
    used, unused = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    used.grad = torch.tensor([3.0, 4.0])
    assert clip_gradients([used, unused], max_norm).item() == 5.0
    assert used.grad.tolist() == pytest.approx(left, rel=1e-5)


def test_a_steps_random_numbers_depend_on_seed_and_step_alone():
    def draw(seed: int, step: int) -> tuple[float, float, float]:
        seed_step(seed, step)
        return torch.rand(()).item(), np.random.rand(), random.random()

    first = draw(1, 2)
    draw(7, 7)
    assert draw(1, 2) == first
    assert all(a != b for a, b in zip(draw(1, 3), first, strict=True))
    assert all(a != b for a, b in zip(draw(2, 2), first, strict=True))


def test_bf16_is_off_where_the_processor_would_emulate_it(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    assert not native_bf16(torch.device("cpu"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    assert native_bf16(torch.device("cpu"))


def test_attention_is_plain_for_a_while_and_gives_the_same():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    model = BertModel(config).eval()
    inputs = {
        "input_ids": torch.tensor([[1, 2, 3], [4, 5, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
    }
    fused = model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
    with plain_attention(nn.ModuleDict({"student": model})):
        assert model.config._attn_implementation == "eager"
        plain = model(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(plain, fused)
    with plain_attention(model, enabled=False):
        assert model.config._attn_implementation == "sdpa"
