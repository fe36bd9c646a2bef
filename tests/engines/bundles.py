"""A trained model of two layers for each task, shipped for every engine that is installed.

Nothing is done to a gate: the models are trained until rounding to INT8 can't turn a prediction,
and a bundle that lacks an artifact fails its tests with the gate's reasons.
"""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path

import numpy as np

import compress
from compress.artifacts.exporters import plan_export
from compress.export import ExportConfig, export
from compress.models.sentence_layout import SentenceLayout, write_layout
from tests.compress.steps import train_settings
from tests.compress.tiny_tasks import write_task
from tests.tiny import LETTERS, WORDS, write_encoder, write_sentiment

_TEXT = {  # the column that grows
    "regression": "text",
    "question-answering": "context",
    "multiple-choice": "prompt",
    "fill-mask": "text",
    "feature-extraction": "sentence1",
}
MAX_LENGTH = 32
WIDTH = 64  # the narrowest whose matrices all engines multiply in INT8


def write_bundle(folder: Path, task: str) -> Path:
    """Train and ship a model of a task; give the bundle.

    Raises:
        AssertionError: A gate refused an artifact.
    """
    folder.mkdir()
    write_encoder(
        folder / "encoder", initializer_range=0.2, hidden_size=WIDTH, intermediate_size=128
    )
    if task == "feature-extraction":
        layout = SentenceLayout(pooling="mean", normalize=True)
        write_layout(folder / "encoder", layout, hidden_size=WIDTH)
    data = task_data(folder, task)
    compress.train(
        train_settings(
            model=str(folder / "encoder"),
            task=task,
            train_file=data,
            dev_file=data,
            output_dir=folder / "trained",
            per_device_train_batch_size=8,
            num_train_epochs=16,
        )
    )
    result = export(
        ExportConfig(
            model=str(folder / "trained"),
            task=task,
            train_file=with_longer_texts(data, task),  # static INT8 calibrates on it
            dev_file=data,
            output_dir=folder / "bundle",
            max_length=MAX_LENGTH,
            threads=1,
        )
    )
    refused = {f"{row.backend}/{row.precision}": row.gate.reasons for row in result.refused}
    assert not refused
    return folder / "bundle"


def task_data(folder: Path, task: str) -> Path:
    """Write a task's rows; give their file."""
    if task != "text-classification":
        return write_task(folder, task)
    path = folder / "texts.tsv"
    write_sentiment(path, rows=80)
    return path


def with_longer_texts(data: Path, task: str) -> Path:
    """Write a task's rows again, some of them with random words in front, of all lengths.

    What is tested is as long: INT8 that had seen the short ones alone was 0.23 off there.
    """
    rng = np.random.default_rng(1)
    starts = [" ".join(rng.choice(WORDS + LETTERS, count)) + " " for count in range(MAX_LENGTH)]
    head, lines = "", data.read_text(encoding="utf-8").splitlines()
    if task == "token-classification":
        longer = ["".join(f"{word}\tO\n" for word in start.split()) for start in starts]
        text = "\n".join([*lines, "", *longer])
    else:
        if task == "text-classification":
            head, *lines = lines
        longer = [_longer(line, start, task) for line, start in zip(cycle(lines), starts)]
        text = "\n".join([*([head] if head else []), *lines, *longer]) + "\n"
    path = data.with_name(f"longer_{data.name}")
    path.write_text(text, encoding="utf-8")
    return path


def _longer(line: str, start: str, task: str) -> str:
    """Put words in front of a row's text."""
    if task == "text-classification":
        return start + line
    row = json.loads(line)
    row[_TEXT[task]] = start + row[_TEXT[task]]
    if "answers" in row:
        row["answers"]["answer_start"] = [
            len(start) + place for place in row["answers"]["answer_start"]
        ]
    return json.dumps(row)


def missing(backend: str) -> str | None:
    """Name the package without which no bundle for a backend can be made here, or None."""
    return plan_export().missing.get(backend)
