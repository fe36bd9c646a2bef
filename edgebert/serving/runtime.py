"""A `Runtime` whose calls, from many threads, share the engine's batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from edgebert.engines.batching import MAX_TOKENS
from edgebert.runtime import Runtime
from edgebert.serving.batcher import Batcher, Call, Outputs
from edgebert.text.tokenizer import Encoding
from edgebert.types import Batch

_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


class ServedRuntime(Runtime):
    """Tokenizes, pools and labels in the caller's thread; one thread runs the rows of all.

    Calls outside `serving` are those of a plain Runtime.
    """

    _batcher: Batcher | None = None

    def share_batches(self, *, max_tokens: int, on_batch: Callable[[Batch], None]) -> None:
        """Begin to run calls together; see `Batcher`."""
        self._batcher = Batcher(
            self._engine,
            pad_id=self._tokenizer.pad_id,
            max_tokens=max_tokens,
            on_batch=on_batch,
        )

    @property
    def ready(self) -> bool:
        """Whether `serving` is answered."""
        return self._batcher is not None and self._batcher.alive

    @contextmanager
    def serving(self, call: Call) -> Iterator[None]:
        """Let the Runtime's methods, called in this thread, run their rows with those of others."""
        token = _CALL.set(call)
        try:
            yield
        finally:
            _CALL.reset(token)

    @property
    def vector_size(self) -> int:
        """Dimensions of a vector, uncut."""
        return self._manifest.vector_size

    def close(self) -> None:
        """Fail what waits, and give back the engine's memory."""
        if self._batcher is None or self._batcher.close():
            super().close()

    def _run_all(
        self,
        encodings: list[Encoding],
        batch_size: int | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
    ) -> Iterator[Outputs]:
        call = _CALL.get()
        if call is None or self._batcher is None:
            return super()._run_all(encodings, batch_size, max_tokens=max_tokens)
        self._check_ids(encodings)
        return self._batcher.run(call, encodings)
