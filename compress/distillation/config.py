"""The settings of ``compress.distill``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compress.distillation.method_names import fitting_methods
from compress.options import option
from compress.settings import TrainingConfig, check_backends, require_at_least
from edgebert.errors import InputError

Method = Literal["auto", "logits", "tinybert", "distilbert", "minilm", "embedding"]
Init = Literal["auto", "layers", "projected", "random"]


@dataclass(frozen=True, kw_only=True)
class DistillConfig(TrainingConfig):
    """Train a student to imitate a teacher, and ship it as a verified bundle."""

    teacher: str = option(help="Alias (--list-teachers), checkpoint directory or hub id")
    no_fallback: bool = option(False, help="Fail where a teacher can't be had, take no other")
    output_dir: Path = option(Path("student"), help="Where the bundle goes")
    learning_rate: float = option(2e-4, help="Peak learning rate of the student")
    student: str = option("minilm-3l-384d", help="Preset, or L=4,H=312,A=12,I=1200")
    method: Method = option(
        "auto", help="auto: logits for labelled data, embedding for vectors, distilbert for MLM"
    )
    init: Init = option(
        "auto", help="Start weights: the teacher's layers if widths agree, else projected"
    )
    layer_map: str = option(
        "auto",
        help="uniform, alternate, last, first, or teacher layers like 1,3,5; auto: alternate for "
        "the method logits, else uniform",
    )
    temperature: float = option(2.0, help="Softmax temperature of the soft targets")
    hard_weight: float = option(0.0, help="Part of the loss on true labels, 0 to 1")
    hidden_weight: float | None = option(
        None, help="Weight of the hidden-state term (default: 0 for the method logits, else 1)"
    )
    dropout: float = option(0.0, help="Of the student while it learns; a teacher is regular enough")
    num_train_epochs: int = option(4, help="Passes over the training rows in the last phase")
    num_relation_heads: int | None = option(
        None, help="minilm: heads that relations are split into (default: as many as fit)"
    )
    teacher_layer: int | None = option(None, help="minilm: teacher layer to imitate (default last)")
    intermediate_epochs: int = option(2, help="tinybert, minilm: epochs of the first phase")
    teacher_learning_rate: float = option(1e-4, help="Fine-tuning: peak learning rate")
    teacher_num_train_epochs: int = option(2, help="Fine-tuning: passes over the training rows")
    teacher_labels: str | None = option(
        None, help="Names of the teacher's logits in order, comma-separated, where it has none"
    )
    backend: tuple[str, ...] = option(
        (), help="Engine to export for, repeatable (default: every one installed)"
    )
    recipe: tuple[str, ...] = option(
        (), help="How INT8 is made: NAME or BACKEND=NAME, repeatable (default: the engine's own)"
    )
    cache_size_gb: float = option(4.0, help="Disk that the cache of teacher outputs may take")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_backends(self.backend)
        if not 0 < self.temperature < math.inf:
            raise InputError(f"temperature must be above 0, got {self.temperature}.")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be from 0 to below 1, got {self.dropout}.")
        if not 0 <= self.hard_weight <= 1:
            raise InputError(f"hard_weight must be from 0 to 1, got {self.hard_weight}.")
        require_at_least("cache_size_gb", self.cache_size_gb, 0)
        if self.hidden_weight is not None:
            require_at_least("hidden_weight", self.hidden_weight, 0)
        for name in ("intermediate_epochs", "teacher_num_train_epochs"):
            require_at_least(name, getattr(self, name), 1)
        if not 0 < self.teacher_learning_rate < math.inf:
            raise InputError(
                f"teacher_learning_rate must be above 0, got {self.teacher_learning_rate}."
            )
        allowed = ("auto", *fitting_methods(self.task))
        if self.method not in allowed:
            raise InputError(
                f"method {self.method!r} doesn't fit the task {self.task!r}; use one of "
                f"{', '.join(allowed)}."
            )
