"""Whether a student can learn from its teacher at all, told before hours go into a teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from compress.artifacts.exporters import plan_export
from compress.distillation.method_names import AUTO_METHOD
from compress.distillation.methods import MethodSettings, build_phases
from compress.models.exits import ExitHeads
from compress.models.layer_map import layer_map
from compress.models.pretrained import auto_class, quiet_transformers, task_config
from compress.models.student import (
    Architecture,
    choose_init,
    parse_student,
    same_parts,
    student_config,
)
from compress.sharing.albert import TOKENIZERS
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedConfig

    from compress.distillation.config import DistillConfig


def check_student(config: DistillConfig, path: Path) -> None:
    """Compose the method for both models without their weights.

    Args:
        config: The settings.
        path: The teacher's checkpoint.

    Raises:
        InputError: Student, layer map, start, method or recipe don't fit the teacher.
    """
    theirs: Any = task_config(path, config.task)
    architecture = parse_student(config.student, theirs)
    check_sharing(architecture, theirs, config.task)
    mapped = mapped_layers(config, architecture.num_hidden_layers, theirs.num_hidden_layers)
    with quiet_transformers(), torch.device("meta"):  # shapes alone
        teacher: Any = auto_class(config.task).from_config(theirs)
        student = same_parts(teacher, student_config(architecture, theirs))
    if not architecture.static:
        choose_init(config.init, architecture, teacher)
    check_training(student, teacher, config, layer_map=mapped)


def check_training(
    student: nn.Module, teacher: nn.Module, config: DistillConfig, *, layer_map: tuple[int, ...]
) -> None:
    """Make sure that a student of this shape can be trained and shipped; see `check_student`."""
    if config.makes_exits:
        check_exits(student)
    plan_export(config.backend, config.recipe)
    build_phases(
        method_of(config),
        student=student,
        teacher=teacher,
        layer_map=layer_map,
        config=method_settings(config, pooling_layers=config.pooling_layers or 1),
        task=config.task,
    )


def check_exits(student: nn.Module) -> None:
    """Make sure that a student can have exits.

    Raises:
        InputError: It has one layer, or is of a family whose layers can't be run one by one.
    """
    try:
        ExitHeads(student)
    except ModelError as error:
        raise InputError(f"--early-exit and --layerdrop don't fit this student: {error}") from error


def check_sharing(architecture: Architecture, teacher_config: PreTrainedConfig, task: str) -> None:
    """Make sure that a student can share as it is asked to.

    Raises:
        InputError: Its teacher's family has another form than ALBERT's, or the task's head needs
            the whole embedding table.
    """
    if not architecture.shares:
        return
    if teacher_config.model_type not in TOKENIZERS:
        raise InputError(
            f"A student of a {teacher_config.model_type!r} can't share its weights, so "
            f"{architecture} won't do; leave out E and G. Families that can: "
            f"{', '.join(TOKENIZERS)}."
        )
    if architecture.embedding_size is not None and task == "fill-mask":
        raise InputError(
            "A student for fill-mask needs the whole embedding table in its head; leave out E "
            f"in {architecture}."
        )


def method_of(config: DistillConfig) -> str:
    """Name the method; ``auto`` is the task's own."""
    return AUTO_METHOD[config.task] if config.method == "auto" else config.method


def mapped_layers(
    config: DistillConfig, student_layers: int, teacher_layers: int
) -> tuple[int, ...]:
    """Map the layers; ``auto`` is what measured best on SST-2's dev (benchmarks/tune.py).

    A static student has none to map.
    """
    if not student_layers:
        return ()
    strategy = config.layer_map
    if strategy == "auto":
        strategy = "alternate" if method_of(config) == "logits" else "uniform"
    return layer_map(strategy, student_layers, teacher_layers)


def method_settings(config: DistillConfig, **facts: Any) -> MethodSettings:
    """Take the knobs of the losses out of a run's settings.

    Args:
        config: The settings.
        facts: What the data and the teacher say: fields of `MethodSettings`.
    """
    hidden_weight = config.hidden_weight
    if hidden_weight is None:  # 0 measured best for logits on SST-2's dev (benchmarks/tune.py)
        without = config.static or method_of(config) == "logits"
        hidden_weight = 0.0 if without else 1.0
    return MethodSettings(
        temperature=config.temperature,
        hard_weight=config.hard_weight,
        hidden_weight=hidden_weight,
        num_relation_heads=config.num_relation_heads,
        teacher_layer=config.teacher_layer,
        **facts,
    )
