"""What is compared in every environment: the tasks, their inputs, and a batch of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgebert.types import Batch

BACKENDS = ("onnx", "openvino")

CASES: dict[str, list[Any]] = {
    "text-classification": ["the good film", "a dull plot, very bad"],
    "regression": ["the good film", "a dull plot, very bad"],
    "token-classification": ["hello world the film", "the plot"],
    "question-answering": [("hello ?", "the film good the film"), ("the ?", "a dull plot")],
    "multiple-choice": [("the film", ("good film", "dull film", "the plot"))],
    "fill-mask": ["hello [MASK] the film", "the [MASK] plot is very good"],
    "feature-extraction": ["the good film", "a very bad plot !", "hello world"],
}

# Two rows of one length and one shorter, as the tokenizer of `tests.tiny` makes them.
_IDS = np.array([[2, 57, 58, 3, 59, 3, 0, 0], [2, 60, 61, 62, 63, 3, 64, 3]])
_TYPES = np.array([[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]])


def batch_of(task: str) -> Batch:
    """Give one batch; a model of single texts sees the second as more of the first."""
    del task
    return Batch(_IDS, (_IDS != 0).astype(np.int64), _TYPES, np.zeros(2, dtype=np.int64))


def inputs_of(batch: Batch, *, choices: bool = False) -> dict[str, np.ndarray]:
    """Give the batch under the libraries' names; with an axis of one choice where they want it."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {n: getattr(batch, n)[:, None] if choices else getattr(batch, n) for n in names}


def real(values: np.ndarray, batch: Batch, *, choices: bool = False) -> np.ndarray:
    """Keep the values of real tokens, where there's one a token."""
    per_token = not choices and values.shape[:2] == batch.attention_mask.shape
    return values[batch.attention_mask == 1] if per_token else values
