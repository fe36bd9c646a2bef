"""What a model is for: how its outputs are named, and how they become rows that can be compared."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from compress.models.capture import Pooling
from compress.models.exits import ExitHeads

HIDDEN, SENTENCE = "last_hidden_state", "sentence_embedding"
PER_TOKEN = ("token-classification", "question-answering")


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskHead:
    """A task with what its outputs mean.

    Attributes:
        task: One of ``compress.settings.TASKS``.
        labels: Names in the order of the logits; tags for ``token-classification``.
        problem_type: Of a text-classification, else None.
        pooling: Of a feature-extraction, else None.
        pooling_layers: Of a feature-extraction: how many of the last layers are averaged.
        normalize: Whether vectors get unit length; that is not part of the graph.
        dense: Of a feature-extraction: what comes after pooling, ``[B, H]`` to ``[B, D]``; or None.
        no_answer: Of a question-answering: whether a question may have no answer.
        no_answer_threshold: Of a bundle that is exported again: the one that it has, which stays
            where the data has no answers to calibrate another on.
        max_answer_length: Of a question-answering, in tokens.
        exits: Heads after earlier layers of a text-classification, where it has such; they are not
            part of the graph of the whole model.
    """

    task: str
    labels: tuple[str, ...] = ()
    problem_type: str | None = None
    pooling: Pooling | None = None
    pooling_layers: int = 1
    normalize: bool = False
    dense: nn.Module | None = None
    no_answer: bool = False
    no_answer_threshold: float | None = None
    max_answer_length: int = 30
    exits: ExitHeads | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that an exported graph has, the one that counts first."""
        if self.task == "feature-extraction":
            return (SENTENCE, HIDDEN)
        if self.task == "question-answering":
            return ("start_logits", "end_logits")
        return ("logits",)

    @property
    def per_token(self) -> bool:
        """Whether every token has a row of its own: logits of tags, or of start and end."""
        return self.task in PER_TOKEN

    def has_token_axis(self, output: str) -> bool:
        """Whether an output is ``[batch, seq, …]`` and not ``[batch, …]``."""
        return output == HIDDEN or self.per_token or self.task == "fill-mask"
