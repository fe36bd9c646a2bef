"""Random models of two layers as bundles with real graphs, for tests outside of Python."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from compress.export import ExportConfig, export
from tests.compress.exports import embedder_config
from tests.tiny import write_classifier, write_sentiment

ENGINES = ("onnx", "tflite")


@cache
def shipped_embedder() -> Path:
    """Give a bundle of a random embedder, up to 16 tokens; made once a process."""
    folder = Path(mkdtemp(prefix="shipped-"))
    return _ship(embedder_config(folder, max_length=16, backend=ENGINES))


@cache
def shipped_classifier() -> Path:
    """Give a bundle of a random classifier of two labels, up to 16 tokens; made once a process."""
    folder = Path(mkdtemp(prefix="shipped-"))
    write_classifier(folder / "model", hidden_size=64, initializer_range=0.2)
    write_sentiment(folder / "texts.tsv", rows=60)
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


def _ship(config: ExportConfig) -> Path:
    export(config)  # a gate may refuse INT8 of a random model; FP32 is there
    return config.output_dir
