"""Tiny data and settings for whole steps, and the steps' own command lines run in this process."""

from __future__ import annotations

import contextlib
import logging
import runpy
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compress import DistillConfig, TrainConfig

STUDENT = "L=1,H=32,A=4,I=64"
LOGGERS = ("edgebert", "runtimes", "compress", "__main__")


@dataclass(frozen=True)
class Lab:
    """What tests of whole steps share; nobody writes into it.

    Attributes:
        train: 80 rows that a model of one layer can learn.
        test: 24 other rows of the same labels.
        encoder: A random BERT without a head.
        teacher: The encoder, fine-tuned on ``train``.
        embedder: A random BERT that says how it pools.
        masked_lm: A random BERT with a masked-language-model head.
    """

    train: Path
    test: Path
    encoder: Path
    teacher: Path
    embedder: Path
    masked_lm: Path


def train_settings(lab: Lab | None = None, **changes: Any) -> TrainConfig:
    """Settings that fine-tune a tiny model in half a second."""
    own = {"model": str(lab.encoder), "train_file": lab.train, "dev_file": lab.train} if lab else {}
    return TrainConfig(**{**own, **QUICK, "num_train_epochs": 4, **changes})


def distill_settings(lab: Lab, output_dir: Path, **changes: Any) -> DistillConfig:
    """Settings that distill a student of one layer in a second, for the quickest exporter."""
    settings = {
        "teacher": str(lab.teacher),
        "train_file": lab.train,
        "dev_file": lab.train,
        "student": STUDENT,
        "output_dir": output_dir,
        "num_train_epochs": 2,
        "intermediate_epochs": 1,
        "teacher_learning_rate": 3e-3,
        "teacher_num_train_epochs": 4,
        "backend": ("onnx",),
    }
    return DistillConfig(**{**QUICK, **settings, **changes})


QUICK: dict[str, Any] = {
    "max_length": 16,
    "learning_rate": 3e-3,
    "per_device_train_batch_size": 16,
    "threads": 1,
    "bf16": False,  # the same numbers on every CPU
}


def flags(config: Any) -> list[str]:
    """Write settings as the command line that gives them."""
    import shlex

    from compress.options import command_line

    return shlex.split(command_line(config, prog=""))


@contextlib.contextmanager
def _as_command(argv: list[str]) -> Iterator[None]:
    before = sys.argv
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    sys.argv = argv
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*found in sys.modules", category=Warning)
            yield
    finally:
        sys.argv = before
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def run_step(step: str, *argv: str) -> int:
    """Do in this process what ``python -m compress.STEP ARGV`` does; give its exit code."""
    with _as_command([f"compress.{step}", *argv]):
        try:
            runpy.run_module(f"compress.{step}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            return int(end.code or 0)
    raise AssertionError(f"compress.{step} ended without an exit code")
