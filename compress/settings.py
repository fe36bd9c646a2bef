"""Settings that several steps share: where the data is, and how to train."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from compress.options import check_values, option
from edgebert.errors import InputError
from edgebert.formats.manifest import MAX_ANSWER_TOKENS
from edgebert.formats.manifest import TASKS as TASKS
from runtimes import BACKENDS

Task = Literal[
    "text-classification",
    "regression",
    "token-classification",
    "question-answering",
    "multiple-choice",
    "fill-mask",
    "feature-extraction",
]
ProblemType = Literal[  # the last is transformers' word for what is a task here; see DataConfig
    "single_label_classification", "multi_label_classification", "regression"
]
Pooling = Literal["mean", "cls", "max"]
Scheduler = Literal["linear", "cosine", "constant"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the texts and labels are, and which columns hold them."""

    task: Task = option("text-classification", help="What the model is for")
    dataset: str | None = option(None, help="Hub dataset as path/config, like glue/sst2")
    train_file: Path | None = option(
        None, help="TSV, CSV, JSONL, JSON, CoNLL or Parquet, plain or .gz"
    )
    dev_file: Path | None = option(
        None,
        help="Same forms; cut from train when absent",
        aliases=("eval-file", "validation-file"),
    )
    test_file: Path | None = option(None, help="Same forms; read once, at the end")
    text_column: str | None = option(
        None,
        help="Name, or number from 0 in a file without header (default: the task's own, like "
        "sentence or text, tokens, question, prompt)",
    )
    text_pair_column: str | None = option(
        None, help="Second text of a pair, context of a question, choices: name or number"
    )
    label_column: str | None = option(
        None, help="Name or number (default: the task's own, like label, score, tags, answers)"
    )
    problem_type: ProblemType = option(
        "single_label_classification", help="One label a text, or any number of them"
    )
    max_train_samples: int | None = option(None, help="Use a seeded part of the training rows")
    max_length: int = option(128, help="Longest input in tokens, special tokens included")
    doc_stride: int | None = option(
        None,
        help="Answers and tags: tokens that neighbouring windows of a long text share (default: a "
        "quarter of max_length)",
    )
    max_answer_length: int | None = option(
        None, help="Answers: most tokens of one (default: 30, or a bundle's own)"
    )

    needs_train: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_values(self)
        if self.problem_type == "regression":
            raise InputError("Scores are a task of their own: give --task regression alone.")
        if self.dataset and self.train_file:
            raise InputError("Give --dataset or --train-file, not both.")
        has_train = self.train_file or self.dataset
        if self.needs_train and not has_train and (self.dev_file or self.test_file):
            raise InputError("--dev-file and --test-file need a --train-file or a --dataset.")
        require_at_least("max_length", self.max_length, 3)
        if self.doc_stride is not None and not 0 <= self.doc_stride < self.max_length:
            raise InputError(
                f"doc_stride must be from 0 to below max_length {self.max_length}, got "
                f"{self.doc_stride}."
            )
        for name in ("max_train_samples", "max_answer_length"):
            if getattr(self, name) is not None:
                require_at_least(name, getattr(self, name), 1)
        if (self.max_answer_length or 1) > MAX_ANSWER_TOKENS:
            raise InputError(
                f"max_answer_length must be {MAX_ANSWER_TOKENS} or less, got "
                f"{self.max_answer_length}."
            )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(DataConfig):
    """How a model is trained: the same words for a teacher and for a student."""

    output_dir: Path = option(help="Where the result goes; a directory")
    overwrite_output_dir: bool = option(False, help="Replace what stands there")
    resume: bool = option(False, help="Go on with an interrupted run of the same settings")
    learning_rate: float = option(1e-4, help="Peak learning rate")
    num_train_epochs: int = option(2, help="Passes over the training rows")
    max_steps: int | None = option(None, help="Stop after so many steps, whatever the epochs")
    per_device_train_batch_size: int = option(32, help="Rows a step")
    gradient_accumulation_steps: int = option(1, help="Batches a step")
    warmup_ratio: float = option(0.06, help="Part of the steps in which the rate rises")
    lr_scheduler_type: Scheduler = option("linear", help="How the rate falls afterwards")
    weight_decay: float = option(0.01, help="AdamW's, not on biases and LayerNorms")
    max_grad_norm: float = option(1.0, help="Gradients are clipped to this norm")
    class_weights: tuple[str, ...] = option((), help="label=weight, repeatable; or 'balanced'")
    eval_steps: int | None = option(None, help="Measure on dev every so many steps, not epochs")
    save_steps: int = option(500, help="Checkpoint every so many steps")
    early_stopping_patience: int | None = option(
        None, help="Stop after so many measurements without a better one"
    )
    metric_for_best_model: str | None = option(
        None, help="Metric on dev that picks the weights (default: the task's own)"
    )
    pooling: Pooling | None = option(
        None, help="feature-extraction: how vectors are made (default: the checkpoint's own)"
    )
    pooling_layers: int | None = option(
        None, help="feature-extraction: average so many of the last layers (default: its own, or 1)"
    )
    seed: int = option(42, help="Of every random choice")
    bf16: bool = option(True, help="bfloat16 autocast where the device computes it natively")
    report_to: Literal["none", "tensorboard"] = option("none", help="Live curves in OUTPUT.runs")
    device: str = option("auto", help="cpu, cuda, cuda:1, mps or auto")
    threads: int | None = option(None, help="CPU threads (default: affinity and cgroup quota)")

    least_epochs: ClassVar[int] = 1  # 0 in a step that may go without a training

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be above 0, got {getattr(self, name)}.")
        require_at_least("num_train_epochs", self.num_train_epochs, self.least_epochs)
        for name in (
            "max_steps",
            "per_device_train_batch_size",
            "gradient_accumulation_steps",
            "eval_steps",
            "save_steps",
            "early_stopping_patience",
            "pooling_layers",
            "threads",
        ):
            if getattr(self, name) is not None:
                require_at_least(name, getattr(self, name), 1)
        if not 0 <= self.warmup_ratio < 1:
            raise InputError(f"warmup_ratio must be from 0 to below 1, got {self.warmup_ratio}.")
        require_at_least("weight_decay", self.weight_decay, 0)


def check_backends(names: tuple[str, ...]) -> None:
    """Refuse a backend that this version doesn't export for.

    Raises:
        InputError: A name is not in the table of `runtimes`.
    """
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        raise InputError(f"Unknown backend {unknown[0]!r}. Known backends: {', '.join(BACKENDS)}.")


def require_at_least(name: str, value: float, least: float) -> None:
    """Raise an `InputError` that names the setting, its value and what is allowed."""
    if not least <= value < math.inf:  # NaN too
        raise InputError(f"{name} must be {least} or more, got {value}.")


def list_teachers() -> str:
    """Write the table of aliases; only then is the toolchain loaded, which may not be installed."""
    from compress.models.teachers import list_teachers as write

    return write()
