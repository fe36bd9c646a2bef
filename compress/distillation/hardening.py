"""What makes the last phase harder than it need be, so that the student bears it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import nn

from compress.models.task_head import TaskHead
from compress.training.fake_quant import ROUNDINGS, fake_quantized
from compress.training.layerdrop import dropped_layers

if TYPE_CHECKING:
    from compress.distillation.config import DistillConfig


@contextmanager
def hardened(
    config: DistillConfig, student: nn.Module, head: TaskHead, *, last: bool
) -> Iterator[dict[str, str]]:
    """Round a student's numbers and skip its layers while it is trained, as the settings say.

    Args:
        config: Of the run.
        student: Its layers and matrices are as they were afterwards.
        head: Its Dense modules are rounded, too.
        last: Whether it is the last phase; in others nothing is done.

    Yields:
        What a checkpoint must know of it, by name; empty where nothing is done.
    """
    aware = config.quantization_aware if last else "none"
    skipped = config.layerdrop if last else 0.0
    facts: dict[str, str] = {"quantization_aware": aware} if aware != "none" else {}
    if skipped:
        facts["layerdrop"] = f"{skipped:g}"
    with (
        dropped_layers(student, skipped),
        fake_quantized([student, head.dense], ROUNDINGS[aware]),
    ):
        yield facts
