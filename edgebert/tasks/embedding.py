"""`Runtime`'s methods for ``feature-extraction``: text in, vectors out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from edgebert.errors import BundleError
from edgebert.inputs import ROLES, check_choice, check_count, check_texts, iterate_texts
from edgebert.pooling import HIDDEN, SENTENCE, text_vectors
from edgebert.tasks.core import RuntimeCore
from edgebert.tasks.vectors import VectorForm
from edgebert.text.tokenizer import Encoding
from edgebert.text.windows import WindowedTexts
from edgebert.types import FloatArray, TokenVectors

_ITER_ROWS = 256


class EmbeddingMethods(RuntimeCore):
    """Vectors of texts and of tokens; `edgebert.Runtime` has them."""

    def encode(
        self,
        texts: Iterable[str],
        *,
        role: str | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        dtype: str = "float32",
        on_long: str | None = None,
        batch_size: int | None = None,
    ) -> npt.NDArray[Any]:
        """Turn each text into a vector.

        Args:
            texts: Any number of texts.
            role: ``query`` or ``document`` puts the bundle's prompt of that name before each text;
                None puts nothing.
            normalize: Whether vectors get unit length; by default as the bundle says.
            truncate_dim: Keep so many of the leading dimensions, normalized after the cut.
            dtype: ``float32``, ``float16``, ``int8`` (times the bundle's ``int8_scale``), or
                ``binary`` (one bit a dimension in uint8).
            on_long: See the class. The windows of a text, each with the prompt, give the mean of
                their vectors, each weighted by the tokens that are its own, before it's normalized.
            batch_size: Most texts an engine call; a matter of speed and memory only.

        Returns:
            One row a text, in order: ``[n, dim]``; uint8 ``[n, dim / 8]`` for ``binary``.

        Raises:
            TaskError: The bundle is not for ``feature-extraction``.
            InputError: A text or an argument is not allowed; a text's index is named.
        """
        self._require("encode")
        form = VectorForm.of(
            self._manifest, normalize=normalize, truncate_dim=truncate_dim, dtype=dtype
        )
        return self._encode(check_texts(texts), form, role, on_long, batch_size=batch_size)

    def _encode(
        self,
        texts: list[str],
        form: VectorForm,
        role: str | None,
        on_long: str | None,
        *,
        batch_size: int | None = None,
        names: list[str] | None = None,
    ) -> npt.NDArray[Any]:
        """Do what `encode` does, once texts and form are checked; ``names`` as in `_windowed`."""
        prompt = self._prompt(role)
        if batch_size is not None:  # also where there is no text to run
            check_count("batch_size", batch_size)
        whole = [prompt + text for text in texts]
        windowed = self._windowed(whole, None, on_long, prompt=len(prompt), names=names)
        if not whole:
            return form.empty
        return form.finish(windowed.mean(self._pooled(windowed, batch_size)))

    def _pooled(self, windowed: WindowedTexts, batch_size: int | None = None) -> FloatArray:
        """Run every window and pool its tokens: float32 ``[rows, dim]``, not finished.

        Raises:
            BundleError: The model gives vectors of another shape.
        """
        vectors = np.empty((len(windowed.rows), self._manifest.vector_size), dtype=np.float32)
        for rows, batch, outputs in self._run_all(windowed.rows, batch_size):
            if SENTENCE not in outputs and HIDDEN in outputs:  # one row would be taken for all
                self._check_token_shape(HIDDEN, outputs[HIDDEN], batch)
            found = text_vectors(outputs, batch.attention_mask, self._manifest.pooling)
            if found.shape != (len(rows), vectors.shape[1]):
                raise BundleError(
                    f"The model gives vectors of shape {list(found.shape)}, but "
                    f"{[len(rows), vectors.shape[1]]} is needed. Export it again."
                )
            vectors[rows] = found
        return vectors

    def encode_iter(
        self,
        texts: Iterable[str],
        *,
        role: str | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        dtype: str = "float32",
        on_long: str | None = None,
        batch_size: int | None = None,
    ) -> Iterator[npt.NDArray[Any]]:
        """Turn a stream of texts into vectors, in bounded memory.

        Args:
            texts: Any iterable, also an endless one.
            role: As the following, see `encode`.
            normalize: See `encode`.
            truncate_dim: See `encode`.
            dtype: See `encode`.
            on_long: See `encode`.
            batch_size: Most texts that are read ahead, and rows that are given at once; by
                default 256.

        Returns:
            An iterator over arrays ``[at most batch_size, dim]``, in the order of the texts.

        Raises:
            TaskError, InputError: As `encode`.
        """
        self._require("encode_iter")
        rows = _ITER_ROWS if batch_size is None else check_count("batch_size", batch_size)
        form = VectorForm.of(
            self._manifest, normalize=normalize, truncate_dim=truncate_dim, dtype=dtype
        )
        encode = partial(self._encode, form=form, role=role, on_long=on_long)
        encode([])  # a wrong argument is told now, not when the first text comes
        stream = iterate_texts(texts)

        def chunks() -> Iterator[npt.NDArray[Any]]:
            first = 0
            while chunk := list(islice(stream, rows)):
                yield encode(chunk, names=[f"texts[{first + i}]" for i in range(len(chunk))])
                first += len(chunk)

        return chunks()

    def encode_tokens(
        self,
        texts: Iterable[str],
        *,
        role: str | None = None,
        on_long: str | None = None,
        batch_size: int | None = None,
    ) -> list[TokenVectors]:
        """Give the vector of every token, special tokens left out; arguments as `encode`.

        Offsets are characters of the caller's text. Tokens of the role's prompt are left out. With
        windows, a token's vector is that of the window where it has the most context on both sides.
        """
        self._require("encode_tokens")
        prompt = self._prompt(role)
        whole = [prompt + text for text in check_texts(texts)]
        windowed = self._windowed(whole, None, on_long, prompt=len(prompt))
        return [
            token_vectors(one.text, one.merged(HIDDEN), prompt=len(prompt))
            for one in self._token_outputs(windowed, (HIDDEN,), batch_size=batch_size)
        ]

    def _prompt(self, role: str | None) -> str:
        if role is None:
            return ""
        check_choice("role", role, ROLES)
        return self._manifest.prompts.get(role, "")


def token_vectors(encoding: Encoding, vectors: FloatArray, *, prompt: int) -> TokenVectors:
    """Keep the real tokens behind the first ``prompt`` characters."""
    kept = [
        i
        for i, (special, (_, end)) in enumerate(
            zip(encoding.special_tokens_mask, encoding.offsets, strict=True)
        )
        if not special and (end > prompt or not prompt)
    ]
    offsets = [encoding.offsets[i] for i in kept]
    return TokenVectors(
        vectors=vectors[kept],
        offsets=[(max(0, start - prompt), end - prompt) for start, end in offsets],
        dropped_tokens=encoding.dropped_tokens,
    )
