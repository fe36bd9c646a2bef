"""How many texts a second a torch model takes, for what artifacts are compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compress.scoring.probe import Probe, sample_probe, torch_rows

THROUGHPUT_TEXTS = 256


def torch_throughput(teacher: Any, model: Any, probe: Probe) -> float | None:
    """Give a teacher's texts a second in FP32; None where a model's ids are other texts to it."""
    if teacher.config.vocab_size != model.config.vocab_size:
        return None
    sample = sample_probe(probe, THROUGHPUT_TEXTS)
    head = replace(sample.head, dense=None, pooling_layers=1)  # it may have others, of no cost
    return torch_rows(teacher, replace(sample, head=head)).texts_per_s
