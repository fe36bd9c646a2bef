"""An opened artifact: survives a fork, and gives no NaN."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from edgebert.batching import pad, plan_batches
from edgebert.errors import BackendError, BackendRunError, BundleError
from edgebert.manifest import Artifact
from edgebert.tokenizer import Encoding
from edgebert.types import Batch, FloatArray
from runtimes import Backend, SessionOptions, load_backend

OUTPUT_OF_TASK = {
    "text-classification": "logits",
    "fill-mask": "logits",
    "feature-extraction": "last_hidden_state",
}
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Engine:
    """One artifact on one engine, for any number of threads.

    A forked child has none of its parent's threads, so a session of the parent would wait for them
    for ever. The child leaves that session alone and opens its own at its first call.
    """

    def __init__(
        self, directory: Path, artifact: Artifact, options: SessionOptions, *, task: str
    ) -> None:
        """Open the artifact.

        Raises:
            BackendUnavailableError: Its engine is not installed.
            BackendRunError: The engine can't open it.
            BundleError: Its inputs or outputs are not those of the task.
        """
        self.artifact = artifact
        self._path = directory / artifact.files[0].path
        self._options = options
        self._backend: Backend | None = None
        self._lock = threading.Lock()
        self._closed = False
        _ENGINES.add(self)
        opened = self.backend()
        self.name = opened.engine
        self.output = OUTPUT_OF_TASK[task]
        unknown = sorted(set(opened.inputs) - set(_INPUTS))
        if unknown or self.output not in opened.outputs:
            raise BundleError(
                f"{self._path} has inputs {list(opened.inputs)} and outputs "
                f"{list(opened.outputs)}; {task} needs inputs out of {list(_INPUTS)} and the "
                f"output {self.output!r}. Export it again."
            )

    def backend(self) -> Backend:
        """Give this process's own backend.

        Raises:
            BackendError: The engine was closed.
        """
        if self._closed:
            raise BackendError("This Runtime is closed; make a new one.")
        opened = self._backend
        if opened is None:
            with self._lock:
                opened = self._backend = self._backend or self._open()
        return opened

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run one batch as it is.

        Raises:
            BackendRunError: The engine failed, or an output holds NaN or infinity.
        """
        outputs = self.backend().run(batch)
        for name, values in outputs.items():
            if not np.isfinite(values).all():
                rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
                raise BackendRunError(
                    f"{self.name} gave NaN or infinity in {name!r} for rows {rows.tolist()[:10]} "
                    f"of a batch of {list(batch.input_ids.shape)} tokens, on {self._path}. Take "
                    "another artifact, such as precision='fp32'."
                )
        return outputs

    def run_all(
        self, encodings: Sequence[Encoding], *, pad_id: int, batch_size: int | None
    ) -> Iterator[tuple[list[int], Batch, FloatArray]]:
        """Run texts in batches of like length.

        An artifact whose results depend on batch-mates (INT8 with one activation scale a tensor)
        gets one text a call, so that a text's result is always the same.

        Yields:
            Row numbers, their batch, and the task's output for them.
        """
        lengths = [len(encoding) for encoding in encodings]
        plan = plan_batches(lengths, batch_size=batch_size)
        if not self.artifact.batch_invariant:
            plan = [[row] for rows in plan for row in rows]
        for rows in plan:
            batch = pad([encodings[row] for row in rows], pad_id=pad_id)
            yield rows, batch, self.run(batch)[self.output]

    def close(self) -> None:
        """Give back the engine's memory in this process."""
        self._closed = True
        opened, self._backend = self._backend, None
        if opened is not None:
            opened.close()

    def forget(self) -> None:
        """Leave the parent's session alone, in a forked child.

        Even its end would wait for the parent's threads, so it never ends: a reference is kept
        that the interpreter, when it exits, doesn't know of. A lock that another thread of the
        parent held would never be given back.
        """
        if self._backend is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._backend))
        self._backend = None
        self._lock = threading.Lock()

    def _open(self) -> Backend:
        try:
            return load_backend(self.artifact.backend, self._path, self._options)
        except BackendRunError as error:
            needed = self.artifact.min_engine
            raise BackendRunError(f"{error} It needs {needed} or newer.") from error


_ENGINES: weakref.WeakSet[Engine] = weakref.WeakSet()


def _forget_all() -> None:
    for engine in list(_ENGINES):
        engine.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)
