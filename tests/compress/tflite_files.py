"""A small model as TFLite files, made once: the converter takes seconds."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from compress.artifacts.quantize_tflite import TfliteExporter
from compress.artifacts.quantizer import Exported
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.types import Batch
from runtimes import SessionOptions, load_backend
from tests.tiny import bert_config

# Per layer: query, key, value, attention output, up, down. Then the pooler and the classifier.
MATMULS, GATHERS = 2 * 6 + 2, 2  # the rows of positions are constants of each signature
EXPORTER = TfliteExporter(buckets=(8,))
MAX_LENGTH = 16


@dataclass(frozen=True)
class Lab:
    """A classifier as torch module and as FP32 file, with what the process was before and after."""

    module: GraphModule
    path: Path
    exported: Exported
    before: dict[str, Any]
    after: dict[str, Any]


def make_lab(folder: Path) -> Lab:
    torch.manual_seed(0)
    config = bert_config(hidden_size=64, intermediate_size=128, initializer_range=0.2)
    model = transformers.BertForSequenceClassification(config).eval()
    for parameter in model.parameters():  # no bias is 0, no scale of a norm 1
        parameter.data += 0.02 * torch.randn_like(parameter)
    head = TaskHead(task="text-classification", labels=("bad", "good"))
    before = process_state()
    exported = EXPORTER.export_fp32(model, head, folder / "model.tflite", max_length=MAX_LENGTH)
    after = process_state()
    return Lab(GraphModule(model, head), folder / "model.tflite", exported, before, after)


def process_state() -> dict[str, Any]:
    """Give what a conversion could leave changed."""
    import jax

    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "torch threads": torch.get_num_threads(),
        "random": torch.get_rng_state().tolist(),
        "jax": jax.config.jax_enable_x64,
        "handlers": logging.root.handlers[:],
        "level": logging.root.level,
        "disabled": logging.root.manager.disable,
        "torch's log": logging.getLogger("torch").handlers[:],
        "environment": dict(os.environ),
        "warnings": warnings.filters[:],
        "excepthook": sys.excepthook,
    }


def batch_of(*lengths: int) -> Batch:
    """Draw texts, as pairs."""
    draw = np.random.default_rng(sum(lengths))
    shape = (len(lengths), max(lengths))
    mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int64)
    ids = draw.integers(5, 80, shape) * mask
    kinds = (np.arange(shape[1]) > shape[1] // 2) * mask
    return Batch(ids, mask, kinds, np.zeros(len(lengths), dtype=np.int64))


def by_torch(module: GraphModule, batch: Batch) -> dict[str, Any]:
    """Run the torch module, one text after the other; outputs of padding are 0."""
    rows = []
    for row, length in enumerate(batch.attention_mask.sum(axis=1)):
        given = [torch.from_numpy(getattr(batch, name)) for name in module.input_names]
        with torch.no_grad():
            rows.append(module(*(one[row : row + 1, :length] for one in given)))
    found = {}
    for place, name in enumerate(module.output_names):
        values = [row[place].numpy() for row in rows]
        if module.head.has_token_axis(name):
            width = batch.input_ids.shape[1]
            values = [
                np.pad(one, [(0, 0), (0, width - one.shape[1]), *[(0, 0)] * (one.ndim - 2)])
                for one in values
            ]
        found[name] = np.concatenate(values)
    return found


def by_engine(path: Path, batch: Batch) -> dict[str, Any]:
    backend = load_backend("tflite", path, SessionOptions(threads=1))
    found = backend.run(batch)
    backend.close()
    return found
