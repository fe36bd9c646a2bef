"""LiteRT, or tflite-runtime where that has no wheel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from edgebert.errors import BackendRunError
from edgebert.types import Batch, FloatArray, IntArray
from runtimes import installed_engine
from runtimes.banner import without_line
from runtimes.base import SessionOptions, one_line
from runtimes.pool import Pool
from runtimes.tflite_file import check_whole
from runtimes.tflite_signatures import Signature, read_signatures

# Not by name: either package may be the one that isn't there.
_PACKAGE = installed_engine("tflite") or "ai-edge-litert"
_ENGINE: Any = import_module(_PACKAGE.replace("-", "_"))
_INTERPRETER: Any = import_module(f"{_ENGINE.__name__}.interpreter").Interpreter
_BANNER = b"INFO: Created TensorFlow Lite XNNPACK delegate"
_SHORT = 16  # up to here one thread is as fast as two (MiniLM in INT8)


class TfliteBackend:
    """Runs ``tflite/model*.tflite``: one file with a signature for each of a few lengths.

    A text runs alone, on the shortest signature that holds it, so that its batch-mates have no say
    in its result. The texts of a batch run side by side, each on an interpreter of one thread,
    which took 0.7 of the time of one interpreter with two threads; a single text gets all threads.

    Each interpreter packs the matrices of the layers for itself (MiniLM: 13 MB in INT8, 87 MB in
    FP32) and shares the mapped embeddings. There are up to ``threads`` small ones and a large one,
    each made when it is first needed.
    """

    engine = f"{_PACKAGE} {_ENGINE.__version__}"

    def __init__(self, artifact: Path, options: SessionOptions) -> None:
        """Open the model.

        Raises:
            BackendRunError: The file is no model that this version can run, or none that it runs
                rightly.
        """
        self._artifact = artifact
        self._threads = options.threads or 1  # the engine's own choice
        self._small = Pool(lambda: _Worker(artifact, threads=1), limit=self._threads)
        self._large = Pool(lambda: _Worker(artifact, threads=self._threads), limit=1)
        self._helpers: ThreadPoolExecutor | None = None
        self._lock = Lock()
        self._closed = False
        self._signatures = self._read_signatures()
        self.inputs = sorted(self._signatures[0].inputs)
        self.outputs = sorted(self._signatures[0].outputs)
        self.signatures = [(one.name, one.length) for one in self._signatures]

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """See `runtimes.base.Backend.run`. Outputs of padding are 0."""
        if self._closed:
            raise self._was_closed()
        lengths = _real_lengths(batch.attention_mask)
        signatures = [self._signature_for(length) for length in lengths]
        outputs = self._zeros(*batch.input_ids.shape)

        def work(row: int, worker: _Worker) -> None:
            for name, values in worker.run(signatures[row], batch, row).items():
                if signatures[row].outputs[name][:1] == (None,):
                    outputs[name][row, : lengths[row]] = values[0, : lengths[row]]
                else:
                    outputs[name][row] = values[0]

        try:
            if len(lengths) == 1:
                self._run_one(signatures[0], work)
            else:
                # the longest first, so that no thread is left alone with it at the end
                self._run_many(sorted(range(len(lengths)), key=lambda row: -lengths[row]), work)
        except BackendRunError:  # closed meanwhile
            raise
        except Exception as error:  # the engine's errors have no parent of their own
            raise BackendRunError(
                f"{self.engine} failed on {self._artifact} with a batch of "
                f"{list(batch.input_ids.shape)} tokens: {one_line(error)}"
            ) from error
        return outputs

    def close(self) -> None:
        """See `runtimes.base.Backend.close`."""
        with self._lock:
            self._closed = True
            helpers, self._helpers = self._helpers, None
        self._small.close()
        self._large.close()
        if helpers is not None:
            helpers.shutdown(wait=False)

    def _run_one(self, signature: Signature, work: Callable[[int, _Worker], None]) -> None:
        if self._threads > 1 and signature.length > _SHORT:
            with self._large.borrow_now() as worker:
                if worker is not None:
                    work(0, worker)
                    return
        with self._small.borrow() as worker:
            work(0, worker)

    def _run_many(self, rows: Sequence[int], work: Callable[[int, _Worker], None]) -> None:
        waiting = deque(rows)

        def drain() -> None:
            if not waiting:  # done by others while this one waited for its turn
                return
            with self._small.borrow() as worker:
                while True:
                    try:
                        row = waiting.popleft()
                    except IndexError:
                        return
                    work(row, worker)

        helping: list[Future[None]] = []
        try:
            for _ in range(min(self._threads, len(rows)) - 1):
                helping.append(self._help(drain))
            drain()
        finally:
            waiting.clear()
            for helper in helping:
                if not helper.cancel():
                    helper.result()

    def _help(self, drain: Callable[[], None]) -> Future[None]:
        """Run it on another thread; none is started once this was closed: nobody would end it."""
        with self._lock:
            if self._closed:
                raise self._was_closed()
            if self._helpers is None:
                self._helpers = ThreadPoolExecutor(self._threads - 1, "edgebert-tflite")
            return self._helpers.submit(drain)

    def _was_closed(self) -> BackendRunError:
        return BackendRunError(f"{self._artifact} was closed; open it again.")

    def _signature_for(self, length: int) -> Signature:
        for signature in self._signatures:
            if length <= signature.length:
                return signature
        raise BackendRunError(
            f"A text has {length} tokens; {self._artifact} holds up to "
            f"{self._signatures[-1].length}. Cut it there, or give a smaller max_length."
        )

    def _zeros(self, rows: int, length: int) -> dict[str, FloatArray]:
        return {
            name: np.zeros(
                (rows, *(length if size is None else size for size in shape)), dtype=np.float32
            )
            for name, shape in self._signatures[0].outputs.items()
        }

    def _read_signatures(self) -> list[Signature]:
        """Open the first interpreter, once the file is known to be whole."""
        try:
            check_whole(self._artifact)
            with self._small.borrow() as worker:
                misread = _PACKAGE == "tflite-runtime" and worker.has_row_scales()
                signatures = worker.read_signatures()
        except Exception as error:  # the engine's errors have no parent of their own
            raise BackendRunError(
                f"{self.engine} can't open {self._artifact}: {one_line(error)} The file is "
                "damaged, or made for a newer engine; `edgebert verify` on the bundle tells which."
            ) from error
        if misread:
            raise BackendRunError(
                f"{self.engine} reads {self._artifact} wrong without a word: its INT8 weights have "
                "one scale a row. Install ai-edge-litert, or ship the artifact of the INT8 recipe "
                "'compatible'."
            )
        return signatures


class _Worker:
    """One interpreter with the signatures that it has run. One thread at a time may use it."""

    _told = False  # the engine announces itself once a process

    def __init__(self, artifact: Path, *, threads: int) -> None:
        quiet = nullcontext() if _Worker._told else without_line(_BANNER)
        with quiet:
            self._interpreter = _INTERPRETER(model_path=str(artifact), num_threads=threads)
            self._interpreter.allocate_tensors()
        _Worker._told = True
        self._runners: dict[str, Callable[..., dict[str, FloatArray]]] = {}

    def read_signatures(self) -> list[Signature]:
        """Read all signatures, the shortest first."""
        return read_signatures(self._interpreter)

    def has_row_scales(self) -> bool:
        """Tell whether a weight is INT8 with a scale for each of its rows."""
        tensors = self._interpreter.get_tensor_details()
        return any(len(one["quantization_parameters"]["scales"]) > 1 for one in tensors)

    def run(self, signature: Signature, batch: Batch, row: int) -> dict[str, FloatArray]:
        """Run one text of a batch, float32 ``[1, …]`` by name, padded like the signature."""
        runner = self._runners.get(signature.name)
        if runner is None:
            runner = self._interpreter.get_signature_runner(signature.name)
            self._runners[signature.name] = runner
        feed = {}
        for name, kind in signature.inputs.items():
            given = getattr(batch, name)[row : row + 1, : signature.length]
            feed[name] = np.zeros((1, signature.length), dtype=kind)
            feed[name][:, : given.shape[1]] = given
        return runner(**feed)


def _real_lengths(attention_mask: IntArray) -> list[int]:
    """Count the tokens of each row up to its last real one."""
    backwards = attention_mask[:, ::-1] != 0
    padding = np.where(backwards.any(axis=1), backwards.argmax(axis=1), attention_mask.shape[1])
    lengths: list[int] = (attention_mask.shape[1] - padding).tolist()
    return lengths
