"""`Runtime`'s method for ``regression``: a text or a pair in, a number out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgebert.tasks.core import RuntimeCore
from edgebert.types import FloatArray


class ScoringMethods(RuntimeCore):
    """Numbers of texts and of pairs of texts; `edgebert.Runtime` has them."""

    def score(self, texts: Iterable[Any], *, on_long: str | None = None) -> FloatArray:
        """Give each text, or pair of texts, its number.

        Args:
            texts: Strings; or tuples of two strings for a bundle that was trained on pairs.
            on_long: See the class. The windows of a text, or of the longer text of a pair, give
                the mean of their numbers, each weighted by the tokens that are its own.

        Returns:
            float32 ``[n]``, in the unit of the training data, as the similarity of 0 to 5 of STS-B.

        Raises:
            TaskError: The bundle is not for ``regression``.
            InputError: A text or an argument is not allowed; a text's index is named.
        """
        self._require("score")
        return self._scores(*self._as_trained(texts), on_long)

    def _scores(
        self,
        texts: list[str],
        text_pairs: list[str] | None,
        on_long: str | None,
        *,
        names: list[str] | None = None,
    ) -> FloatArray:
        windowed = self._windowed(texts, text_pairs, on_long, names=names)
        return self._text_logits(windowed, width=1)[:, 0]
