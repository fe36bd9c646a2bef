"""An opened artifact: survives a fork, and gives no NaN."""

from __future__ import annotations

import os
import threading
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
    for ever; each process opens its own at its first call.
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
        self._backends: dict[int, Backend] = {}  # by process id
        self._locks: dict[int, threading.Lock] = {}
        self._closed = False
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
        pid = os.getpid()
        opened = self._backends.get(pid)
        if opened is None:
            # a lock of the parent may be held for ever in the child, so locks are by process too
            with self._locks.setdefault(pid, threading.Lock()):
                opened = self._backends.get(pid) or self._open()
                self._backends[pid] = opened
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
        opened = self._backends.pop(os.getpid(), None)
        if opened is not None:
            opened.close()

    def _open(self) -> Backend:
        try:
            return load_backend(self.artifact.backend, self._path, self._options)
        except BackendRunError as error:
            needed = self.artifact.min_engine
            raise BackendRunError(f"{error} It needs {needed} or newer.") from error
