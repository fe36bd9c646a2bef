"""Latency is measured side by side, and a busy machine is told."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from compress.artifacts.gate import torch_outputs
from compress.artifacts.timing import compare_latency, core_share, one_text_latency
from compress.models.task_head import TaskHead
from tests.tiny import bert_config

HEAD = TaskHead(task="feature-extraction", pooling="mean")


class Counting:
    """Runs a torch model as an engine and counts the calls by length."""

    engine = "torch"
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    outputs = ("last_hidden_state",)

    def __init__(self, model):
        self.model, self.shapes = model, []

    def run(self, batch):
        self.shapes.append(batch.input_ids.shape)
        return torch_outputs(self.model, batch, HEAD)

    def close(self):
        pass


@pytest.fixture(scope="module")
def model():
    from transformers import BertModel

    return BertModel(bert_config()).eval()


def test_each_engine_is_timed_at_32_and_128_tokens_as_torch_is(model):
    engine = Counting(model)
    found = compare_latency(
        model, {"mine": engine}, tokens=np.arange(5, 20), max_length=512, repeats=2
    )
    assert set(found) == {"torch", "mine"}
    assert set(found["mine"]) == set(found["torch"]) == {"b1_s32", "b1_s128"}
    assert set(engine.shapes) == {(1, 32), (1, 128)}


def test_lengths_beyond_the_maximum_are_left_out(model):
    found = compare_latency(model, {}, tokens=np.arange(5, 20), max_length=64, repeats=1)
    assert list(found["torch"]) == ["b1_s32"]


def test_engines_are_compared_on_32_tokens_or_on_fewer_where_no_more_fit(model):
    engine = Counting(model)
    one_text_latency({"mine": engine}, tokens=np.arange(5, 20), max_length=64, repeats=1)
    found = one_text_latency({"mine": engine}, tokens=np.arange(5, 20), max_length=9, repeats=1)
    assert found["mine"] > 0
    assert set(engine.shapes) == {(1, 32), (1, 9)}


def test_a_thread_that_has_to_share_its_core_is_noticed(monkeypatch):
    half = iter([0.0, 0.05])  # CPU time: half of the wall time below
    wall = iter([0.0, 0.1, 0.1])
    monkeypatch.setattr("compress.artifacts.timing.time.thread_time", lambda: next(half))
    monkeypatch.setattr("compress.artifacts.timing.time.perf_counter", lambda: next(wall))
    assert core_share(1, seconds=0.1) == pytest.approx(0.5)


def test_a_core_is_never_more_than_whole():
    assert 0.0 < core_share(threading.active_count(), seconds=0.02) <= 1.0


def test_the_models_mode_is_left_as_it_was(model):
    model.train()
    compare_latency(model, {}, tokens=np.arange(5, 20), max_length=32, repeats=1)
    assert model.training
    assert torch.is_grad_enabled()
    model.eval()
