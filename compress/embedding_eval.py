"""How good a student's vectors are on dev: by an STS file, else by closeness to the teacher's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from compress.capture import Pooling
from compress.data import Split
from compress.encoding import encode_texts
from compress.methods import collapse_check
from compress.metrics import pearson, spearman
from compress.predict import pooled, predict
from edgebert.types import FloatArray

if TYPE_CHECKING:
    from edgebert.tokenizer import Tokenizer


COMPARED_TEXTS = 1000


class EmbeddingEvaluation:
    """Scores the vectors of any model with this tokenizer on one split.

    A split of scored pairs gives ``spearman``, the rank correlation of the pairs' cosines with
    their scores. Plain texts give ``pearson``, the correlation of all cosines among the first
    texts with the teacher's, which stands for any width of the student.

    Args:
        split: Pairs with scores, or plain texts.
        tokenizer: Of all models to be scored.
        pooling: How hidden states become a vector.
        max_length: In tokens.
    """

    def __init__(
        self, split: Split, tokenizer: Tokenizer, *, pooling: Pooling, max_length: int
    ) -> None:
        self._split = split
        self._pooling: Pooling = pooling
        self._pad_id = tokenizer.pad_id
        self.metric = "pearson" if split.labels is None else "spearman"
        sides = [split.texts] if split.text_pairs is None else [split.texts, split.text_pairs]
        self._encoded = [encode_texts(tokenizer, side, max_length=max_length) for side in sides]
        self._reference: list[FloatArray] = []

    def set_reference(self, teacher: nn.Module) -> None:
        """Compute the vectors that ``pearson`` compares with."""
        self._reference = self.vectors(teacher)

    def vectors(self, model: nn.Module) -> list[FloatArray]:
        """Give the unit vectors of first texts, and of second ones if any, float32 ``[n, H]``."""
        head = pooled(self._pooling)
        return [predict(model, one, pad_id=self._pad_id, head=head) for one in self._encoded]

    def score(self, model: nn.Module) -> dict[str, float]:
        """Measure a model.

        Raises:
            ModelError: All its vectors point the same way.
        """
        vectors = self.vectors(model)
        collapse_check(vectors[0])
        if self.metric == "spearman":
            cosines = (vectors[0] * vectors[1]).sum(axis=1)
            return {"spearman": spearman(cosines, np.asarray(self._split.labels, dtype=float))}
        return {"pearson": pearson(_cosines(vectors[0]), _cosines(self._reference[0]))}

    def evaluator(self, model: nn.Module) -> Callable[[], dict[str, float]]:
        """Make the function that a training loop calls."""
        return lambda: self.score(model)


def _cosines(vectors: FloatArray) -> FloatArray:
    """Give the cosine of every two of the first texts once, float32 ``[pairs]``."""
    first = vectors[:COMPARED_TEXTS]
    cosines: FloatArray = first @ first.T
    return cosines[np.triu_indices(len(first), k=1)]
