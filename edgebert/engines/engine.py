"""An opened artifact: survives a fork, and gives no NaN."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgebert.engines.batching import MAX_TOKENS, pad, plan_batches
from edgebert.engines.forking import NATIVE_WORK
from edgebert.errors import BackendError, BackendRunError, BundleError
from edgebert.formats.manifest import Artifact, Manifest
from edgebert.pooling import HIDDEN, SENTENCE
from edgebert.text.tokenizer import Encoding
from edgebert.types import Batch, FloatArray
from runtimes import Backend, SessionOptions, load_backend

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
Ports = tuple[tuple[str, ...], tuple[str, ...]]


class Engine:
    """One artifact on one engine, for any number of threads.

    A forked child has none of its parent's threads, so a session of the parent would wait for them
    for ever. The child leaves that session alone and opens its own at its first call.
    """

    def __init__(
        self,
        directory: Path,
        artifact: Artifact,
        options: SessionOptions,
        *,
        manifest: Manifest,
        ports: Ports | None = None,
    ) -> None:
        """Open the artifact.

        Args:
            directory: The bundle.
            artifact: One of the manifest's.
            options: How the engine may use the machine; without a ``max_length`` it is the
                manifest's.
            manifest: Says which outputs are needed, see `needed_outputs`.
            ports: Of a part of a model: inputs that it may have, and outputs that it must have.

        Raises:
            BackendUnavailableError: Its engine is not installed.
            BackendRunError: The engine can't open it.
            BundleError: Its inputs or outputs are not those of the task.
        """
        self.artifact = artifact
        self._path = directory / artifact.files[0].path
        longest = options.max_length or manifest.max_length
        self._options = replace(options, max_length=longest)
        self._backend: Backend | None = None
        self._lock = threading.Lock()
        self._closed = False
        _ENGINES.add(self)
        opened = self.backend()
        self.name = opened.engine
        allowed, needed = ports or (_INPUTS, needed_outputs(manifest))
        if not (set(opened.inputs) <= set(allowed) and set(needed) <= set(opened.outputs)):
            self.close()
            raise BundleError(
                f"{self._path} has inputs {list(opened.inputs)} and outputs "
                f"{list(opened.outputs)}; {manifest.task} needs inputs out of {list(allowed)} and "
                f"the outputs {list(needed)}. Export it again."
            )

    def backend(self) -> Backend:
        """Give this process's own backend.

        Raises:
            BackendError: The engine was closed.
        """
        opened = self._backend
        if opened is None:
            with NATIVE_WORK, self._lock:
                if self._closed:
                    raise BackendError("This Runtime is closed; make a new one.")
                opened = self._backend = self._backend or self._open()
        return opened

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run one batch as it is.

        Raises:
            BackendRunError: The engine failed, or an output holds NaN or infinity, or is no array
                of numbers with an axis for the rows.
        """
        with NATIVE_WORK:
            found = self.backend().run(batch)
        outputs = {name: self._floats(name, values) for name, values in found.items()}
        for name, values in outputs.items():
            if not np.isfinite(values).all():
                rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
                raise BackendRunError(
                    f"{self.name} gave NaN or infinity in {name!r} for rows {rows.tolist()[:10]} "
                    f"of a batch of {list(batch.input_ids.shape)} tokens, on {self._path}. Take "
                    "another artifact, such as precision='fp32'."
                )
        return outputs

    def _floats(self, name: str, values: Any) -> FloatArray:
        """Give an output as float32; a graph of a stranger may give a text, a list or a scalar."""
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub" or not values.ndim:
            shown = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            raise BackendRunError(
                f"{self.name} gave {name!r} as {shown} of shape {list(np.shape(values))}, on "
                f"{self._path}; it must be float32 with a row for each text. Export it again."
            )
        with np.errstate(over="ignore"):  # what is too large for float32 is refused as infinite
            return values.astype(np.float32, copy=False)

    def run_all(
        self,
        encodings: Sequence[Encoding],
        *,
        pad_id: int,
        batch_size: int | None = None,
        max_tokens: int = MAX_TOKENS,
    ) -> Iterator[tuple[list[int], Batch, dict[str, FloatArray]]]:
        """Run texts in batches of like length.

        An artifact whose results depend on batch-mates (INT8 with one activation scale a tensor)
        gets one text a call, so that a text's result is always the same.

        Args:
            encodings: Any number of texts.
            pad_id: Id of the padding token.
            batch_size: See `plan_batches`.
            max_tokens: See `plan_batches`.

        Yields:
            Row numbers, their batch, and the model's outputs for it by name.
        """
        lengths = [len(encoding) for encoding in encodings]
        plan = plan_batches(lengths, max_tokens=max_tokens, batch_size=batch_size)
        if not self.artifact.batch_invariant:
            plan = [[row] for rows in plan for row in rows]
        for rows in plan:
            batch = pad([encodings[row] for row in rows], pad_id=pad_id)
            yield rows, batch, self.run(batch)

    def warm(self, batch: Batch) -> None:
        """Let the engine prepare for a batch's shape."""
        self.run(batch)

    def close(self) -> None:
        """Give back the engine's memory in this process."""
        with NATIVE_WORK, self._lock:
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
            known = self.artifact.gated_on  # else whoever exported it said nothing of engines
            needed = f" It needs {self.artifact.min_engine} or newer." if known else ""
            raise BackendRunError(f"{error}{needed}") from error


def needed_outputs(manifest: Manifest) -> tuple[str, ...]:
    """Name the outputs that a bundle's graphs must have.

    A vector of a text is pooled here from ``last_hidden_state`` where a graph has no
    ``sentence_embedding``; that can't make up for a Dense module or earlier layers.
    """
    if manifest.task == "question-answering":
        return ("start_logits", "end_logits")
    if manifest.task != "feature-extraction":
        return ("logits",)
    if manifest.pooling is None:  # what a foreign graph has was looked at when it was found
        return ()
    in_graph = manifest.embedding_size is not None or manifest.pooling_layers > 1
    return (HIDDEN, SENTENCE) if in_graph else (HIDDEN,)


_ENGINES: weakref.WeakSet[Engine] = weakref.WeakSet()


def _forget_all() -> None:
    for engine in list(_ENGINES):
        engine.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)
