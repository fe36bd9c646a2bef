"""A student of three layers with exits, shipped for the engines that can drop rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import compress
from compress import DistillConfig
from compress.export import ExportConfig
from tests.compress.steps import QUICK, train_settings
from tests.tiny import WORDS, write_encoder, write_sentiment

STUDENT = "L=3,H=64,A=4,I=128"
LAYERS = 3


def exit_settings(folder: Path, **changes: Any) -> DistillConfig:
    """Settings that distill a student with exits from the teacher in a folder."""
    settings = {
        "teacher": str(folder / "teacher"),
        "train_file": folder / "texts.tsv",
        "dev_file": folder / "texts.tsv",
        "student": STUDENT,
        "output_dir": folder / "bundle",
        "max_length": 32,
        "num_train_epochs": 4,
        "early_exit": True,
        "backend": ("onnx", "openvino"),
    }
    return DistillConfig(**{**QUICK, **settings, **changes})


def write_teacher(folder: Path) -> None:
    """Train the teacher, 64 wide: the narrowest whose matrices all engines multiply in INT8."""
    shape = {"num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 128}
    write_encoder(folder / "encoder", initializer_range=0.2, **shape)
    data = folder / "texts.tsv"
    write_sentiment(data, rows=80)
    files = {"model": str(folder / "encoder"), "train_file": data, "dev_file": data}
    compress.train(train_settings(**files, output_dir=folder / "teacher", num_train_epochs=8))


def export_settings(folder: Path, **changes: Any) -> ExportConfig:
    """Settings that make a bundle of the one in a folder again, for ONNX alone."""
    settings = {
        "model": str(folder / "bundle"),
        "train_file": folder / "texts.tsv",
        "dev_file": folder / "texts.tsv",
        "output_dir": folder / "again",
        "max_length": 32,
        "threads": 1,
        "backend": ("onnx",),
    }
    return ExportConfig(**{**settings, **changes})


def mixed_texts(count: int) -> list[str]:
    """Make texts of 1 to 20 words, some of them alike in length, so that they share a batch."""
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, rng.choice([1, 4, 5, 12, 20]))) for _ in range(count)]
