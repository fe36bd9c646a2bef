"""Random models of two layers as bundles with real graphs, for tests outside of Python."""

from __future__ import annotations

from atexit import register
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch

from compress.export import ExportConfig, export
from edgebert.text.tokenizer import Tokenizer
from tests.compress.exports import embedder_config
from tests.tiny import SPECIAL_IDS, WORDS, write_classifier

ENGINES = ("onnx", "tflite")


@cache
def shipped_embedder() -> Path:
    """Give a bundle of a random embedder, up to 16 tokens; made once a process."""
    folder = _scratch()
    return _ship(embedder_config(folder, max_length=16, backend=ENGINES))


@cache
def shipped_classifier() -> Path:
    """Give a bundle of a random classifier of two labels, up to 16 tokens; made once a process."""
    folder = _scratch()
    model = write_classifier(folder / "model", hidden_size=64, initializer_range=0.2)
    _write_own_labels(model, folder)
    return _ship(
        ExportConfig(
            model=str(folder / "model"),
            task="text-classification",
            output_dir=folder / "bundle",
            train_file=folder / "texts.tsv",
            dev_file=folder / "texts.tsv",
            max_length=16,
            threads=1,
            backend=ENGINES,
        )
    )


def _scratch() -> Path:
    folder = Path(mkdtemp(prefix="shipped-"))
    register(rmtree, folder, ignore_errors=True)
    return folder


def _write_own_labels(model: Any, folder: Path) -> None:
    """Write texts with the labels that the model gives, those that it's sure of, half of each."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(200)]
    tokenizer = Tokenizer(folder / "model", special_ids=SPECIAL_IDS)
    encodings = tokenizer.encode(texts, max_length=16)
    with torch.no_grad():
        ids = [torch.tensor(one.input_ids)[None] for one in encodings]
        gaps = torch.stack([(logits := model(one).logits[0])[1] - logits[0] for one in ids])
        model.classifier.bias[1] -= gaps.median()  # so that both labels occur
    model.save_pretrained(folder / "model")
    order = np.argsort(gaps.numpy())
    rows = [f"{texts[i]}\tbad" for i in order[:30]] + [f"{texts[i]}\tgood" for i in order[-30:]]
    lines = ["sentence\tlabel", *(rows[i] for i in rng.permutation(len(rows)))]
    (folder / "texts.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _ship(config: ExportConfig) -> Path:
    result = export(config)
    assert not result.refused
    return config.output_dir
