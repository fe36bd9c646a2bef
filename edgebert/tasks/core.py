"""What all of `Runtime`'s methods stand on: text to token ids, batches to outputs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cached_property
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from edgebert.bundles.bundle import Bundle
from edgebert.engines.batching import MAX_TOKENS, check_batch, pad
from edgebert.engines.engine import Engine
from edgebert.engines.exits import EXIT_LAYER
from edgebert.errors import BundleError, InputError
from edgebert.formats.manifest import TOKENIZER_NAME
from edgebert.inputs import ON_LONG, check_choice, check_count, split_pairs
from edgebert.tasks.names import TaskMethods
from edgebert.text.tokenizer import Encoding, Tokenizer
from edgebert.text.windows import TokenOutputs, Window, WindowedTexts, cut_windows
from edgebert.types import Batch, FloatArray, IntArray

logger = logging.getLogger(__name__)

T = TypeVar("T", bound="RuntimeCore")


class RuntimeCore(TaskMethods):
    """Tokenizes, runs and closes; `edgebert.Runtime` fills the attributes."""

    _bundle: Bundle
    _tokenizer: Tokenizer
    _engine: Engine
    _max_length: int
    _warned_of_cuts = False
    _warned_of_stride = False

    def tokenize(self, texts: Iterable[Any], *, on_long: str | None = None) -> Batch:
        """Make a batch of texts, or of pairs, for `run`; its ``dropped_tokens`` tell of cuts.

        Args:
            texts: Strings, or tuples of two strings. For ``fill-mask`` a mask token in one, like
                ``[MASK]``, is that token, as in `fill_mask`; for other tasks it is plain text.
            on_long: ``error`` or ``truncate``; None for the bundle's default, or ``truncate``
                where that is ``window``: a batch has one row a text.

        Raises:
            InputError: A text or an argument is not allowed; a text's index is named.
        """
        if on_long == "window":
            raise InputError(
                "on_long='window' makes several rows of a long text, but a batch of tokenize() has "
                "one a text; give 'error' or 'truncate', or call the method of the task."
            )
        firsts, seconds = split_pairs(texts)
        policy = "truncate" if on_long is None and self._manifest.on_long == "window" else on_long
        masks = self._manifest.task == "fill-mask"
        windowed = self._windowed(firsts, seconds, policy, masks=masks)
        return pad(windowed.rows, pad_id=self._tokenizer.pad_id)

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run a batch as it is, in one call, and give the model's raw outputs by name.

        Raises:
            InputError: The batch's shapes or mask are not allowed, it has no row, or it has more
                tokens or other ids than the model's tables have room for.
            BackendRunError: The engine failed, or gave NaN or infinity.
        """
        longest, vocab_size = self._tables
        types = self._bundle.type_vocab_size()
        check_batch(batch, max_length=longest, vocab_size=vocab_size, type_vocab_size=types)
        return self._engine.run(batch)

    @cached_property
    def _tables(self) -> tuple[int, int | None]:
        """Give the rows of the tables of positions and of tokens; the latter may not be known."""
        return self._bundle.position_limit(), self._bundle.vocab_size()

    def warmup(self) -> None:
        """Run a short and a longest input, so that the first real call is not the slow one."""
        pad_id = self._tokenizer.pad_id
        for length in (min(8, self._max_length), self._max_length):
            ids = np.full((1, length), pad_id, dtype=np.int64)
            self._engine.warm(Batch(ids, np.ones_like(ids), np.zeros_like(ids), ids[:, 0] * 0))

    def close(self) -> None:
        """Give back the engine's memory; later calls raise `BackendError`."""
        self._engine.close()

    def __reduce__(self) -> Any:
        raise InputError(
            "A Runtime can't be pickled or copied: its engine belongs to this process. Open the "
            "bundle with edgebert.Runtime where it is needed; a forked child may use the parent's."
        )

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _as_trained(self, texts: Iterable[Any]) -> tuple[list[str], list[str] | None]:
        """Take texts, or pairs, apart; refuse those that the model was not trained on."""
        firsts, seconds = split_pairs(texts)
        if firsts and self._manifest.pairs not in (None, seconds is not None):
            pairs = "pairs of texts: give tuples (text, text_pair), in the shell --pairs"
            single = "one text: give strings, in the shell no --pairs"
            raise InputError(
                f"This bundle was trained on {pairs if self._manifest.pairs else single}."
            )
        return firsts, seconds

    def _windowed(
        self,
        texts: list[str],
        text_pairs: list[str] | None,
        on_long: str | None,
        *,
        side: int | None = None,
        prompt: int = 0,
        stride: int | None = None,
        masks: bool = False,
        names: list[str] | None = None,
    ) -> WindowedTexts:
        """Tokenize texts or pairs by the policy on long ones.

        Args:
            texts: Checked texts, or the first ones of pairs.
            text_pairs: The second ones.
            on_long: One of `ON_LONG`, or None for the bundle's default.
            side: Which text of a pair is cut into windows, 0 or 1; None for the longer one.
            prompt: How many characters at the start of each text every window keeps.
            stride: Tokens that windows share; None for the bundle's.
            masks: Whether the mask token's text is that token and no plain text.
            names: What an error calls the texts, ``texts[0]`` and so on by default.

        Raises:
            InputError: A text is too long and the policy is ``error``, or windows have no room.
        """
        policy = self._manifest.on_long if on_long is None else on_long
        check_choice("on_long", policy, ON_LONG)
        if policy != "window":
            encodings = self._tokenizer.encode(
                texts,
                text_pairs,
                max_length=self._max_length,
                on_long=policy,
                masks=masks,
                names=names,
            )
            self._tell_of_cuts(encodings)
            return WindowedTexts(encodings, [[Window.whole(one)] for one in encodings])
        whole = self._tokenizer.encode(texts, text_pairs, max_length=None, masks=masks)
        stride = self._manifest.stride if stride is None else stride
        cut = [
            cut_windows(
                encoding,
                max_length=self._max_length,
                stride=stride,
                side=side,
                prompt=prompt,
                name=names[i] if names else f"texts[{i}]",
            )
            for i, encoding in enumerate(whole)
        ]
        self._tell_of_stride(stride, cut)
        return WindowedTexts(whole, cut)

    def _tell_of_stride(self, stride: int | None, cut: list[list[Window]]) -> None:
        shared = min((window.shared for windows in cut for window in windows[1:]), default=stride)
        if stride is not None and shared != stride and not self._warned_of_stride:
            self._warned_of_stride = True
            logger.warning(
                "windows of max_length=%d have too little room left to share the stride of %d "
                "tokens, so that some share %d only; this is logged once only",
                *(self._max_length, stride, shared),
            )

    def _tell_of_cuts(self, encodings: list[Encoding]) -> None:
        cut = sum(1 for one in encodings if one.dropped_tokens)
        if cut and not self._warned_of_cuts:
            self._warned_of_cuts = True
            logger.warning(
                "%d of %d texts were cut at max_length=%d tokens; results say how many tokens were "
                "dropped, and this is logged once only",
                *(cut, len(encodings), self._max_length),
            )

    def _run_all(
        self,
        encodings: list[Encoding],
        batch_size: int | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
    ) -> Iterator[tuple[list[int], Batch, dict[str, FloatArray]]]:
        if batch_size is not None:
            check_count("batch_size", batch_size)
        self._check_ids(encodings)
        return self._engine.run_all(
            encodings,
            pad_id=self._tokenizer.pad_id,
            batch_size=batch_size,
            max_tokens=max_tokens,
        )

    def _check_ids(self, encodings: list[Encoding]) -> None:
        """Refuse a token without a row in the model's table: OpenVINO takes zeros for it."""
        _, vocab_size = self._tables
        most = max((int(one.input_ids.max(initial=0)) for one in encodings), default=0)
        if vocab_size is not None and most >= vocab_size:
            raise BundleError(
                f"{TOKENIZER_NAME} gives {self._tokenizer.text_of(most)!r} the id {most}, but the "
                f"model has {vocab_size} tokens (vocab_size in config.json). Make the bundle again "
                "with the model's own tokenizer."
            )

    def _text_logits(
        self, windowed: WindowedTexts, *, width: int, exit_layers: IntArray | None = None
    ) -> FloatArray:
        """Run a model that gives each text ``width`` logits: float32 ``[n, width]``.

        Of windows it's the mean, each weighted by the tokens that are its own. Where the model runs
        in segments, ``exit_layers`` (one a window) is filled in.

        Raises:
            BundleError: The model gives another number of logits.
        """
        logits = np.empty((len(windowed.rows), width), dtype=np.float32)
        for rows, _, outputs in self._run_all(windowed.rows):
            found = outputs["logits"]
            if found.shape != (len(rows), width):
                raise BundleError(
                    f"The model gives logits of shape {list(found.shape)}; a "
                    f"{self._manifest.task} bundle with its labels needs {[len(rows), width]}. "
                    "Export it again."
                )
            logits[rows] = found
            if exit_layers is not None and EXIT_LAYER in outputs:
                exit_layers[rows] = outputs[EXIT_LAYER]
        return windowed.mean(logits)

    def _token_outputs(
        self, windowed: WindowedTexts, outputs: tuple[str, ...], *, batch_size: int | None = None
    ) -> list[TokenOutputs]:
        """Run a model that gives every token a value.

        Args:
            windowed: From `_windowed`.
            outputs: Names of those to keep, each ``[batch, seq, ...]``.
            batch_size: Most rows an engine call.

        Returns:
            One a text, in order: its windows with their values, and `TokenOutputs.merged`, which
            makes one value a token of the text of them.

        Raises:
            BundleError: An output has another shape.
        """
        values: list[dict[str, FloatArray]] = [{} for _ in windowed.rows]
        for rows, batch, found in self._run_all(windowed.rows, batch_size):
            for name in outputs:
                self._check_token_shape(name, found[name], batch)
                for row, of_row in zip(rows, found[name], strict=True):
                    # a copy, so that the padding of its batch is not kept
                    values[row][name] = of_row[: len(windowed.rows[row])].copy()
        results, first = [], 0
        for text, windows in zip(windowed.texts, windowed.windows, strict=True):
            results.append(TokenOutputs(text, windows, values[first : first + len(windows)]))
            first += len(windows)
        return results

    def _check_token_shape(self, name: str, found: FloatArray, batch: Batch) -> None:
        dims = 2 if name in ("start_logits", "end_logits") else 3
        if found.ndim != dims or found.shape[:2] != batch.input_ids.shape:
            raise BundleError(
                f"The model gives {name!r} of shape {list(found.shape)} for a batch of "
                f"{list(batch.input_ids.shape)} tokens; a {self._manifest.task} bundle needs a "
                "value for each token. Export it again."
            )
