"""What all of `Runtime`'s methods stand on: text to token ids, batches to outputs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from edgebert.batching import check_batch, pad
from edgebert.engine import Engine
from edgebert.inputs import ON_LONG, check_choice, check_count, split_pairs
from edgebert.tasks import TaskMethods
from edgebert.tokenizer import Encoding, Tokenizer
from edgebert.types import Batch, FloatArray

logger = logging.getLogger(__name__)

T = TypeVar("T", bound="RuntimeCore")


class RuntimeCore(TaskMethods):
    """Tokenizes, runs and closes; `edgebert.Runtime` fills the attributes."""

    _tokenizer: Tokenizer
    _engine: Engine
    _max_length: int
    _warned = False

    def tokenize(self, texts: Iterable[Any]) -> Batch:
        """Make a batch of texts, or of pairs, for `run`; its ``dropped_tokens`` tell of cuts."""
        return pad(self._encodings(*split_pairs(texts), None), pad_id=self._tokenizer.pad_id)

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run a batch as it is, in one call, and give the model's raw outputs by name.

        Raises:
            InputError: The batch's shapes or mask are not allowed.
            BackendRunError: The engine failed, or gave NaN or infinity.
        """
        check_batch(batch)
        return self._engine.run(batch)

    def warmup(self) -> None:
        """Run a short and a longest input, so that the first real call is not the slow one."""
        pad_id = self._tokenizer.pad_id
        for length in (min(8, self._max_length), self._max_length):
            ids = np.full((1, length), pad_id, dtype=np.int64)
            self._engine.run(Batch(ids, np.ones_like(ids), np.zeros_like(ids), ids[:, 0] * 0))

    def close(self) -> None:
        """Give back the engine's memory; later calls raise `BackendError`."""
        self._engine.close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _encodings(
        self, texts: list[str], text_pairs: list[str] | None, on_long: str | None
    ) -> list[Encoding]:
        policy = self._manifest.on_long if on_long is None else on_long
        check_choice("on_long", policy, ON_LONG)
        encodings = self._tokenizer.encode(
            texts, text_pairs, max_length=self._max_length, on_long=policy
        )
        cut = sum(1 for one in encodings if one.dropped_tokens)
        if cut and not self._warned:
            self._warned = True
            logger.warning(
                "%d of %d texts were cut at max_length=%d tokens; results say how many tokens were "
                "dropped, and this is logged once only",
                *(cut, len(encodings), self._max_length),
            )
        return encodings

    def _run_all(
        self, encodings: list[Encoding], batch_size: int | None
    ) -> Iterator[tuple[list[int], Batch, FloatArray]]:
        if batch_size is not None:
            check_count("batch_size", batch_size)
        return self._engine.run_all(encodings, pad_id=self._tokenizer.pad_id, batch_size=batch_size)
