"""Small exports to the quickest engine, shared by the tests of graphs and bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from compress.artifacts.onnx_graph import ExportedGraph, export_onnx
from compress.export import ExportConfig
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from tests.tiny import WORDS, bert_config, write_encoder


def write_onnx(model: Any, path: Path, task: str) -> ExportedGraph:
    """Export a model to ONNX, an embedder with mean pooling."""
    return export_onnx(GraphModule(model, TaskHead(task=task, pooling="mean")), path)


def write_wide_classifier(path: Path) -> Path:
    """Export a random classifier whose matrices are whole blocks, with weights worth rounding."""
    torch.manual_seed(0)
    config = bert_config(hidden_size=64, intermediate_size=128, initializer_range=0.1)
    write_onnx(transformers.BertForSequenceClassification(config), path, "text-classification")
    return path


def write_texts(path: Path, rows: int = 120) -> Path:
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(rows)]
    path.write_text("text\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def embedder_config(folder: Path, **changes) -> ExportConfig:
    if not (folder / "model").exists():
        write_encoder(folder / "model", hidden_size=64, intermediate_size=128)
        write_texts(folder / "texts.tsv")
    settings = {
        "model": str(folder / "model"),
        "task": "feature-extraction",
        "output_dir": folder / "bundle",
        "train_file": folder / "texts.tsv",
        "dev_file": folder / "texts.tsv",
        "pooling": "mean",
        "normalize": True,
        "max_length": 64,
        "threads": 1,
        "backend": ("onnx",),
    }
    return ExportConfig(**{**settings, **changes})
