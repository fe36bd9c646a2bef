"""`Runtime`'s methods that compare texts: by their vectors, or pair by pair with the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np

from edgebert.errors import InputError
from edgebert.inputs import check_count, check_texts
from edgebert.tasks.embedding import EmbeddingMethods
from edgebert.tasks.scoring import ScoringMethods
from edgebert.tasks.vectors import VectorForm, cosine
from edgebert.types import FloatArray, Ranked


class RankingMethods(EmbeddingMethods, ScoringMethods):
    """How alike texts are, and which fit a query best; `edgebert.Runtime` has them.

    A ``feature-extraction`` bundle compares vectors by cosine. A ``regression`` bundle that was
    trained on pairs reads both texts of a pair together (a cross-encoder): slower, as each pair is
    a run of its own, and its scores are the model's own numbers.
    """

    def similarity(
        self,
        a: Sequence[str] | FloatArray,
        b: Sequence[str] | FloatArray,
        *,
        on_long: str | None = None,
    ) -> FloatArray:
        """Compare each of ``a`` with each of ``b``.

        Args:
            a: ``n`` texts, or their vectors ``[n, dim]``, float32 or float16.
            b: ``m`` texts or vectors. A cross-encoder takes texts only.
            on_long: See the class, `encode` and `score`.

        Returns:
            float32 ``[n, m]``: cosines, -1 to 1; or a cross-encoder's scores of the pairs
            ``(a, b)``, which may differ from those of ``(b, a)``.

        Raises:
            TaskError: The bundle is neither for ``feature-extraction``, nor for ``regression`` and
                trained on pairs.
            InputError: A text is not allowed, or vectors are of another type (int8, binary) or
                width, or given to a cross-encoder.
        """
        self._require("similarity")
        if self._manifest.task == "regression":
            return self._cross(_only_texts(a, "a"), _only_texts(b, "b"), on_long)
        return cosine(self._vectors(a, "a", on_long), self._vectors(b, "b", on_long))

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        *,
        top_k: int | None = None,
        on_long: str | None = None,
    ) -> list[Ranked]:
        """Order documents by how well they fit the query, the best first.

        Args:
            query: One text; gets the bundle's ``query`` prompt where it is an embedder.
            documents: Texts; get its ``document`` prompt.
            top_k: How many to give, or None for all.
            on_long: See `similarity`.

        Returns:
            Scored by cosine, or by a cross-encoder's number for the pair ``(query, document)``.

        Raises:
            TaskError, InputError: As `similarity`.
        """
        self._require("rank")
        if not isinstance(query, str):
            raise InputError(f"query is of type {type(query).__name__}; give one string.")
        queries = check_texts([query], name="query")
        kept = None if top_k is None else check_count("top_k", top_k)
        texts = check_texts(documents, name="documents")
        if not texts:
            return []
        if self._manifest.task == "regression":
            scores = self._cross(queries, texts, on_long)[0]
        else:
            asked = self._vectors(queries, "query", on_long, role="query")
            found = self._vectors(texts, "documents", on_long, role="document")
            scores = cosine(asked, found)[0]
        order = np.argsort(-scores, kind="stable")[:kept]
        return [Ranked(int(i), float(scores[i]), texts[i]) for i in order]

    def _vectors(
        self,
        texts: Sequence[str] | FloatArray,
        name: str,
        on_long: str | None,
        *,
        role: str | None = None,
    ) -> FloatArray:
        """Encode texts that an error calls ``name``, float32 ``[n, dim]``; vectors stay."""
        if _are_vectors(texts):
            return texts
        listed = check_texts(texts, name=name)
        form = VectorForm.of(self._manifest, normalize=None, truncate_dim=None, dtype="float32")
        names = [f"{name}[{i}]" for i in range(len(listed))]
        return self._encode(listed, form, role, on_long, names=names)

    def _cross(self, a: list[str], b: list[str], on_long: str | None) -> FloatArray:
        """Score every pair, float32 ``[n, m]``; as many at once as one text has partners."""
        scores = np.empty((len(a), len(b)), dtype=np.float32)
        for i, first in enumerate(a):
            names = [f"The pair of text {i} with text {k}" for k in range(len(b))]
            scores[i] = self._scores([first] * len(b), b, on_long, names=names)
        return scores


def _are_vectors(given: Sequence[str] | FloatArray) -> TypeGuard[FloatArray]:
    """Tell vectors from texts, which numpy may hold too."""
    return isinstance(given, np.ndarray) and given.dtype.kind not in "UO"


def _only_texts(texts: Sequence[str] | FloatArray, name: str) -> list[str]:
    if _are_vectors(texts):
        raise InputError(
            f"{name} holds vectors, but this bundle compares pairs of texts and has no vectors; "
            "give texts, or take a feature-extraction bundle."
        )
    return check_texts(texts, name=name)
