"""The settings of ``compress.distill``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from compress.distillation.method_names import fitting_methods
from compress.models.architecture import PRESETS, static_size
from compress.options import flag, option
from compress.settings import TrainingConfig, check_backends, require_at_least
from edgebert.errors import InputError

Method = Literal["auto", "logits", "tinybert", "distilbert", "minilm", "embedding"]
Init = Literal["auto", "layers", "projected", "random"]
QuantizationAware = Literal["none", "int8", "int4"]

# Why a task's texts can't be changed, and why answers of several teachers can't be averaged.
_NO_AUGMENT = {
    "token-classification": "the tags belong to the very words that would be exchanged",
    "question-answering": "the exchanged words may be the answer, and move its place",
    "multiple-choice": "with other words another choice may be the right one",
    "fill-mask": "it learns the true words of texts, and made texts have none",
}
NO_ENSEMBLE = {
    "token-classification": "tokenizers cut words differently, so answers by token don't meet",
    "question-answering": "tokenizers cut words differently, so answers by token don't meet",
    "fill-mask": "vocabularies differ, so answers by token don't meet",
    "feature-extraction": "two embedders' vectors lie in two spaces, so their mean means nothing; "
    "one of them can teach alone, like --teacher-weights 0,1",
}


@dataclass(frozen=True, kw_only=True)
class DistillConfig(TrainingConfig):
    """Train a student to imitate a teacher, and ship it as a verified bundle."""

    least_epochs: ClassVar[int] = 0  # of a static student

    teacher: str = option(help="Alias (--list-teachers), checkpoint directory or hub id")
    no_fallback: bool = option(False, help="Fail where a teacher can't be had, take no other")
    output_dir: Path = option(Path("student"), help="Where the bundle goes")
    learning_rate: float = option(2e-4, help="Peak learning rate of the student")
    extra_teacher: tuple[str, ...] = option(
        (), help="One more teacher, its answers averaged with those of --teacher; repeatable"
    )
    teacher_weights: str = option(
        "uniform",
        help="Of several teachers: uniform, dev (by their scores on it), or numbers in their order "
        "like 0,1: then the first gives the student its start, hidden states and tokens alone",
    )
    student: str = option(
        "minilm-3l-384d",
        help="Preset, or L=4,H=312,A=12,I=1200; E=64 narrows its embeddings, G=1 lets its layers "
        "share weights; static-256d, of any width, has a vector for each token and no layer; the "
        "directory of a checkpoint that goes on learning",
    )
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
    num_train_epochs: int = option(
        4, help="Passes over the training rows in the last phase; a static student may go without"
    )
    quantization_aware: QuantizationAware = option(
        "none",
        help="Round weights and activations in the last phase, where dev picks the weights too, as "
        "INT8 artifacts do, or weights alone as INT4 ones do",
    )
    early_exit: bool = option(
        False, help="Train an exit after each layer, so that sure texts leave early (single label)"
    )
    exit_metric_budget: float = option(
        0.005, help="Part of the metric on dev that leaving early may cost, 0 to 1"
    )
    layerdrop: float = option(
        0.0,
        help="Skip each layer with this probability in the last phase, so that exits of any depth "
        "are better; above 0 also makes exits",
    )
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
    augment: int = option(
        0, help="Learn from up to so many changed copies of each train row, without their labels"
    )
    augment_model: str | None = option(
        None,
        help="Masked language model that proposes other words (default: the teacher, if it has "
        "that head; else words with a like input embedding are taken)",
    )
    augment_probability: float = option(0.4, help="Part of the words that a copy exchanges")
    augment_top_k: int = option(15, help="Candidates for a word")
    backend: tuple[str, ...] = option(
        (), help="Engine to export for, repeatable (default: every one installed)"
    )
    recipe: tuple[str, ...] = option(
        (), help="Way to INT8 or INT4: NAME or BACKEND=NAME, repeatable (default: the engine's own)"
    )
    cache_size_gb: float = option(4.0, help="Disk that the cache of teacher outputs may take")
    cache_dir: Path | None = option(
        None, help="Keep teacher outputs there, for runs of the same teacher and texts"
    )

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
        self._check_augmentation()
        self._check_teachers()
        self._check_exits()
        self._check_static()
        allowed = ("auto", *fitting_methods(self.task))
        if self.method not in allowed:
            raise InputError(
                f"method {self.method!r} doesn't fit the task {self.task!r}; use one of "
                f"{', '.join(allowed)}."
            )

    @property
    def given(self) -> bool:
        """Whether the student is a checkpoint, which has its weights."""
        new = self.student in PRESETS or self.static
        return not new and Path(self.student).is_dir()

    @property
    def static(self) -> bool:
        """Whether the student has no layers."""
        return static_size(self.student) is not None

    def _check_static(self) -> None:
        if not self.static:
            require_at_least("num_train_epochs", self.num_train_epochs, 1)
            return
        if self.task != "feature-extraction":
            raise InputError(
                f"--student {self.student} doesn't fit the task {self.task!r}: without layers no "
                "token has seen the text around it, [CLS] neither. Give a student of one layer, "
                "--student L=1, or --task feature-extraction."
            )
        for name, plain in (
            ("method", ("auto", "embedding")),
            ("init", ("auto",)),
            ("layer_map", ("auto",)),
            ("hidden_weight", (None, 0)),
        ):
            if getattr(self, name) not in plain:
                raise InputError(
                    f"{flag(name)} {getattr(self, name)} is about layers, which --student "
                    f"{self.student} hasn't; leave it out."
                )

    @property
    def makes_exits(self) -> bool:
        """Whether the student gets exits."""
        return self.early_exit or self.layerdrop > 0

    def _check_exits(self) -> None:
        for name in ("exit_metric_budget", "layerdrop"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be from 0 to below 1, got {getattr(self, name)}.")
        single = self.problem_type == "single_label_classification"
        if self.makes_exits and not (self.task == "text-classification" and single):
            kind = self.task if single else f"{self.task} of several labels a text"
            raise InputError(
                "--early-exit and --layerdrop are for a text-classification of one label a text, "
                f"as an exit is sure of a label or isn't; the task is {kind}."
            )

    def _check_augmentation(self) -> None:
        require_at_least("augment", self.augment, 0)
        require_at_least("augment_top_k", self.augment_top_k, 1)
        if not 0 < self.augment_probability <= 1:
            raise InputError(
                "augment_probability must be above 0 and at most 1, got "
                f"{self.augment_probability}."
            )
        if self.augment_model is not None and not self.augment:
            raise InputError("--augment-model needs --augment, the number of copies of a row.")
        if self.augment and (reason := _NO_AUGMENT.get(self.task)):
            raise InputError(f"--augment doesn't fit the task {self.task!r}: {reason}.")

    def _check_teachers(self) -> None:
        if self.teacher_weights != "uniform" and not self.extra_teacher:
            raise InputError("--teacher-weights needs one --extra-teacher or more.")
        shares = self.teacher_shares
        if self.extra_teacher and (reason := NO_ENSEMBLE.get(self.task)):
            one = shares is not None and max(shares) == 1
            if not one or self.task != "feature-extraction":
                raise InputError(f"--extra-teacher doesn't fit the task {self.task!r}: {reason}.")

    @property
    def teacher_shares(self) -> tuple[float, ...] | None:
        """Shares of all teachers in their order, their sum 1; None where they aren't given.

        Raises:
            InputError: ``teacher_weights`` is no name, and no number for each teacher.
        """
        if self.teacher_weights in ("uniform", "dev"):
            return None
        try:
            found = [float(one) for one in self.teacher_weights.split(",")]
        except ValueError:
            found = []
        count = 1 + len(self.extra_teacher)
        if len(found) != count or not (min(found) >= 0 and 0 < sum(found) < math.inf):
            raise InputError(
                f"--teacher-weights must be uniform, dev, or {count} numbers of 0 or more like "
                f"{','.join('1' * count)}, one a teacher, --teacher's first; got "
                f"{self.teacher_weights!r}."
            )
        return tuple(one / sum(found) for one in found)
