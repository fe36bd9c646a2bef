"""A student before its training: built for its teacher, and stored as an ALBERT where it shares."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from compress.data.encoding import collate
from compress.distillation.static_start import start_static
from compress.distillation.student_check import check_sharing, mapped_layers
from compress.models.student import Architecture, BuiltStudent, build_student, parse_student
from compress.models.vocabulary import vocab_rows
from compress.sharing.albert import Plan, to_albert

if TYPE_CHECKING:
    from pathlib import Path

    from compress.distillation.config import DistillConfig
    from compress.training.teacher_step import ReadyTeacher

CALIBRATION_BATCHES, CALIBRATION_ROWS = 8, 32


def start_student(
    teacher: ReadyTeacher, config: DistillConfig, *, cache_dir: Path
) -> tuple[BuiltStudent, tuple[int, ...]]:
    """Build the student that the settings name.

    Args:
        teacher: Ready to answer.
        config: The settings.
        cache_dir: Where the teacher's vectors of single tokens go, which a static student is made
            of.

    Returns:
        The student, and the 1-based teacher layer of each of its layers.

    Raises:
        InputError: It can't be had of this teacher.
    """
    theirs: Any = teacher.model.config
    architecture = parse_student(config.student, theirs)
    check_sharing(architecture, theirs, config.task)
    mapped = mapped_layers(config, architecture.num_hidden_layers, theirs.num_hidden_layers)
    if architecture.static:
        counts = _token_counts(teacher)
        return start_static(architecture, teacher, config, cache_dir=cache_dir, counts=counts), ()
    built = build_student(
        architecture,
        teacher.model,
        init=config.init,
        layer_map=mapped,
        seed=config.seed,
        calibration=_calibration(teacher),
    )
    if architecture.shares:
        built = share_student(built, architecture, counts=_token_counts(teacher))
    return built, mapped


def share_student(
    built: BuiltStudent, architecture: Architecture, *, counts: Tensor | None = None
) -> BuiltStudent:
    """Turn a student into the ALBERT that its architecture says; groups begin with their mean.

    Args:
        built: Of this architecture without ``E`` and ``G``.
        architecture: Of the student.
        counts: How often each token occurs in the texts, ``[V]``.
    """
    plan = Plan(
        groups=architecture.num_hidden_groups or architecture.num_hidden_layers,
        embedding_size=architecture.embedding_size or architecture.hidden_size,
    )
    shared = to_albert(built.model, plan, counts=counts)
    return dataclasses.replace(built, model=shared.train())


def set_dropout(model: nn.Module, probability: float) -> None:
    """Set every dropout of a model while it trains; its configuration keeps the family's."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability


def _token_counts(teacher: ReadyTeacher) -> Tensor:
    """Count how often each token occurs in the train texts, int64 ``[V]``."""
    ids = np.concatenate(teacher.encoded.train.rows.encoded.input_ids)
    return torch.from_numpy(np.bincount(ids, minlength=vocab_rows(teacher.model)))


def _calibration(teacher: ReadyTeacher) -> list[dict[str, Tensor]]:
    """Give a few batches of training texts, evenly spread."""
    encoded = teacher.encoded.train.rows.encoded
    count = min(CALIBRATION_BATCHES * CALIBRATION_ROWS, len(encoded))
    rows = [int(i * len(encoded) / count) for i in range(count)]
    parts = [rows[at : at + CALIBRATION_ROWS] for at in range(0, count, CALIBRATION_ROWS)]
    pad_id, device = teacher.tokenizer.pad_id, teacher.model.device
    return [collate(encoded, np.asarray(part), pad_id=pad_id, device=device) for part in parts]
