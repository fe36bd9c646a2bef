"""Latency of a torch model and of artifacts side by side, at equal threads."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import nn

from compress.models.capture import MODEL_INPUTS, model_inputs
from compress.reporting.records import Latency
from compress.scoring.predict import evaluating
from edgebert.engines.bench import interleaved_latency_ms
from edgebert.types import Batch, IntArray
from runtimes.base import Backend

LENGTHS = (32, 128)  # tokens of one text: a sentence and a paragraph
QUIET_SHARE = 0.9  # below it others had a tenth of a core or more: ratios can't be trusted


def compare_latency(
    model: nn.Module,
    backends: Mapping[str, Backend],
    *,
    tokens: IntArray,
    max_length: int,
    task: str = "",
    repeats: int = 30,
) -> dict[str, dict[str, Latency]]:
    """Time one text of 32 and of 128 tokens by turns on torch and on each engine.

    Args:
        model: Runs in torch, in FP32.
        backends: Opened artifacts by name, with as many threads as torch has.
        tokens: Real token ids, int64 ``[n]``; repeated where there are too few.
        max_length: Longer lengths are left out.
        task: Of the model: one for ``multiple-choice`` takes a question of one choice.
        repeats: Timed rounds.

    Returns:
        ``{"torch": {"b1_s32": …}, NAME: …}``.
    """
    found: dict[str, dict[str, Latency]] = {name: {} for name in ("torch", *backends)}
    with evaluating(model):
        for length in (length for length in LENGTHS if length <= max_length):
            batch = _one_text(tokens, length)
            runs: dict[str, Callable[[], object]] = {"torch": _torch_call(model, batch, task)}
            for name, backend in backends.items():
                runs[name] = _engine_call(backend, batch)
            for name, times in interleaved_latency_ms(runs, repeats=repeats).items():
                found[name][f"b1_s{length}"] = Latency(times["p50"], times["p95"])
    return found


def one_text_latency(
    backends: Mapping[str, Backend], *, tokens: IntArray, max_length: int, repeats: int = 20
) -> dict[str, float]:
    """Time one text of 32 tokens, or of ``max_length`` if that is less, by turns on each engine.

    Returns:
        Median milliseconds by name.
    """
    batch = _one_text(tokens, min(LENGTHS[0], max_length))
    runs = {name: _engine_call(backend, batch) for name, backend in backends.items()}
    times = interleaved_latency_ms(runs, repeats=repeats)
    return {name: one["p50"] for name, one in times.items()}


def core_share(threads: int, *, seconds: float = 0.2) -> float:
    """Measure what part of a core each of ``threads`` threads gets: 1 on a quiet machine.

    Threads of torch wait for each other at every layer, so on a busy machine torch slows down far
    more than its share says: 350 ms instead of 5 were seen, which flatters whatever stands beside.
    """

    def work(_: int) -> float:
        block = bytes(1 << 20)  # hashing it leaves the interpreter to the other threads
        start, used = time.perf_counter(), time.thread_time()
        while time.perf_counter() - start < seconds:
            hashlib.sha256(block)
        return (time.thread_time() - used) / (time.perf_counter() - start)

    with ThreadPoolExecutor(threads) as pool:
        return min(1.0, *pool.map(work, range(threads)))


def _one_text(tokens: IntArray, length: int) -> Batch:
    ids = np.take(tokens, np.arange(length), mode="wrap")[None].astype(np.int64)  # [1, length]
    return Batch(ids, np.ones_like(ids), np.zeros_like(ids), np.zeros(1, dtype=np.int64))


def _torch_call(model: nn.Module, batch: Batch, task: str) -> Callable[[], Any]:
    device = next(model.parameters()).device
    tensors = {n: torch.from_numpy(getattr(batch, n)).to(device) for n in MODEL_INPUTS}
    inputs = model_inputs(model, tensors)
    if task == "multiple-choice":
        inputs = {name: values[:, None] for name, values in inputs.items()}
    return lambda: model(**inputs)


def _engine_call(backend: Backend, batch: Batch) -> Callable[[], Any]:
    return lambda: backend.run(batch)
