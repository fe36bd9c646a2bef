"""`Runtime`'s method for ``fill-mask``: a text with masks in, words for them out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from edgebert.errors import BundleError, InputError
from edgebert.inputs import check_count, check_texts
from edgebert.tasks.core import RuntimeCore
from edgebert.tasks.heads import softmax
from edgebert.text.tokenizer import Encoding
from edgebert.text.windows import WindowedTexts
from edgebert.types import Filling, FloatArray, IntArray

_MAX_TOKENS = 512  # a batch: each token has a logit for every word, 60 MB at 30,000 words


class MaskingMethods(RuntimeCore):
    """Words in the place of masks; `edgebert.Runtime` has them."""

    @property
    def mask_token(self) -> str:
        """How a mask is written in a text for `fill_mask`, like ``[MASK]``.

        Raises:
            TaskError: The bundle is not for ``fill-mask``.
        """
        self._require("fill_mask")
        return self._tokenizer.mask_token

    def fill_mask(
        self, texts: Iterable[str], *, top_k: int = 5, on_long: str | None = None
    ) -> list[list[list[Filling]]]:
        """Say which tokens fit best in the place of each mask.

        Args:
            texts: Each with one mask or more, written as the model's own mask token, like
                ``[MASK]`` or ``<mask>``. Other special tokens in a text are plain text.
            top_k: How many tokens to give for a mask, or fewer if the vocabulary is smaller.
            on_long: See the class. With windows, a mask is filled in the one where it has the most
                context on both sides.

        Returns:
            For each text, in order, a list of its masks in their order, and of each the best
            tokens, the best first. Masks of one text are filled without knowing of each other.

        Raises:
            TaskError: The bundle is not for ``fill-mask``.
            InputError: A text has no mask, or a mask was cut off or is none to the tokenizer; or a
                text or an argument is not allowed; a text's index is named.
        """
        self._require("fill_mask")
        count = check_count("top_k", top_k)
        checked = check_texts(texts)
        mask = self._tokenizer.mask_token
        without = [i for i, text in enumerate(checked) if mask not in text]
        if without:
            raise InputError(
                f"texts[{without[0]}] has no mask ({len(without)} such texts in all); write "
                f"{mask!r} where a token is to be found."
            )
        windowed = self._windowed(checked, None, on_long, masks=True)
        for i, (text, encoding) in enumerate(zip(checked, windowed.texts, strict=True)):
            lost = text.count(mask) - len(self._masks(encoding))
            if lost > 0 and not encoding.dropped_tokens:
                raise InputError(
                    f"{lost} masks of texts[{i}] are no mask to the tokenizer where they stand; "
                    f"put a space before and behind each {mask!r}."
                )
            if lost > 0:
                raise InputError(
                    f"{lost} masks of texts[{i}] are behind max_length={self._max_length} tokens "
                    "and were cut off; give on_long='window', or a shorter text."
                )
        return self._fill(windowed, count)

    def _fill(self, windowed: WindowedTexts, count: int) -> list[list[list[Filling]]]:
        found: list[list[tuple[int, list[Filling]]]] = [[] for _ in windowed.texts]
        for rows, batch, outputs in self._run_all(windowed.rows, max_tokens=_MAX_TOKENS):
            self._check_token_shape("logits", outputs["logits"], batch)
            for row, logits in zip(rows, outputs["logits"], strict=True):
                text, number = windowed.places[row]
                window = windowed.windows[text][number]
                masks = self._masks(window.encoding)
                masks = masks[window.best[masks]]
                fillings = self._fillings(logits[masks], count)
                found[text] += zip(window.positions[masks].tolist(), fillings, strict=True)
        # windows of one text may have run in any order
        return [
            [fillings for _, fillings in sorted(masks, key=lambda mask: mask[0])] for masks in found
        ]

    def _masks(self, encoding: Encoding) -> IntArray:
        """Find the masks: their places, int64 ``[masks]``."""
        return np.flatnonzero(encoding.input_ids == self._tokenizer.mask_id)

    def _fillings(self, logits: FloatArray, count: int) -> list[list[Filling]]:
        """Read the best tokens of each mask off its logits, float32 ``[masks, vocabulary]``."""
        ids = self._tokenizer.ids[self._tokenizer.ids < logits.shape[1]]  # some rows are to spare
        if not ids.size:
            raise BundleError(
                f"The model gives {logits.shape[1]} logits a token, and the tokenizer has no token "
                "with such an id. Export it again."
            )
        kept = min(count, ids.size)
        results = []
        for probabilities in softmax(logits):
            real = probabilities[ids]
            least = np.partition(real, ids.size - kept)[ids.size - kept]
            likely = np.flatnonzero(real >= least)  # kept ones, or more on a tie
            best = likely[np.argsort(-real[likely], kind="stable")[:kept]]
            scores = zip(ids[best].tolist(), real[best].tolist(), strict=True)
            results.append([Filling(self._tokenizer.text_of(i), i, score) for i, score in scores])
        return results
