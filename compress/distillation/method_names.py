"""Which distillation methods there are, and the tasks that each serves; no torch is loaded here."""

from __future__ import annotations

from typing import Literal

from compress.settings import Task

Method = Literal["logits", "tinybert", "distilbert", "minilm", "embedding"]

LABELLED: tuple[Task, ...] = (
    "text-classification",
    "regression",
    "token-classification",
    "question-answering",
    "multiple-choice",
)
METHODS: dict[str, tuple[Task, ...]] = {
    "logits": LABELLED,
    "tinybert": (*LABELLED, "feature-extraction", "fill-mask"),
    "distilbert": (*LABELLED, "fill-mask"),
    "minilm": (*LABELLED, "feature-extraction", "fill-mask"),
    "embedding": ("feature-extraction",),
}
AUTO_METHOD: dict[str, str] = {
    **dict.fromkeys(LABELLED, "logits"),
    "feature-extraction": "embedding",
    "fill-mask": "distilbert",
}


def fitting_methods(task: str) -> list[str]:
    """Name the methods that serve a task."""
    return [name for name, tasks in METHODS.items() if task in tasks]
