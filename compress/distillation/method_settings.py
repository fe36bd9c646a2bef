"""The knobs of the distillation losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from compress.models.capture import Pooling
from compress.settings import ProblemType, require_at_least
from edgebert.errors import InputError

# DistilBERT's published weights: 5 soft targets, 2 hidden tokens, 1 cosine (Sanh et al., 2019).
TOKEN_SOFT_WEIGHT, HIDDEN_TOKEN_WEIGHT = 5.0, 2.0


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """The knobs of the losses. A weight of 0 leaves its term out.

    Attributes:
        temperature: Divides the logits of soft targets.
        hard_weight: Part of the loss on true labels, 0 to 1; soft targets get the rest.
        hidden_weight: Of the hidden-state term, whatever the method.
        attention_weight: tinybert: of the attention scores.
        embedding_weight: tinybert: of the embedding output.
        pooled_weight: embedding: of the vectors' directions.
        similarity_weight: embedding: of the cosines within a batch.
        hidden_token_weight: fill-mask: of the true hidden tokens.
        num_relation_heads: minilm: what relations are split into; None for the most heads, up to
            the teacher's own, that divide both widths.
        teacher_layer: minilm: 1-based teacher layer to imitate; None for the last.
        class_weights: One a class or tag in the order of the logits, for true labels.
        problem_type: Of classes: one label a text or any number.
        pooling: embedding: how both models make one vector of a text.
        pooling_layers: embedding: how many of the teacher's last layers are averaged before.
    """

    temperature: float = 2.0
    hard_weight: float = 0.0
    hidden_weight: float = 1.0
    attention_weight: float = 1.0
    embedding_weight: float = 1.0
    pooled_weight: float = 1.0
    similarity_weight: float = 1.0
    hidden_token_weight: float = HIDDEN_TOKEN_WEIGHT
    num_relation_heads: int | None = None
    teacher_layer: int | None = None
    class_weights: tuple[float, ...] | None = None
    problem_type: ProblemType = "single_label_classification"
    pooling: Pooling = "mean"
    pooling_layers: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise InputError(f"temperature must be above 0 and finite, got {self.temperature}.")
        if not 0 <= self.hard_weight <= 1:
            raise InputError(f"hard_weight must be from 0 to 1, got {self.hard_weight}.")
        for name, value in vars(self).items():
            if name.endswith("_weight") and not 0 <= value < math.inf:
                raise InputError(f"{name} must be 0 or more and finite, got {value}.")
        for name in ("num_relation_heads", "teacher_layer", "pooling_layers"):
            if getattr(self, name) is not None:
                require_at_least(name, getattr(self, name), 1)
        if self.class_weights is not None and not all(w > 0 for w in self.class_weights):
            raise InputError(f"class_weights must be above 0, got {self.class_weights}.")
