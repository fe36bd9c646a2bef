"""OpenVINO.

On CPUs with AMX its default for what is not INT8 is bfloat16, and that gives wrong vectors (cosine
0.46 on MiniLM) for every text whose length is the size of an attention head, if that is below 64.
The fused attention keeps the tile configuration between two products of equal M, N and K without a
look at their types (``configure_tiles_if_needed``): 8-bit queries times keys, then bfloat16 scores
times values. In float32 the second product needs no tiles. So float32 it is, and read back.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from edgebert.errors import BackendRunError
from edgebert.types import Batch, FloatArray
from runtimes.base import SessionOptions, one_line
from runtimes.names import feed, known_name
from runtimes.pool import Pool
from runtimes.shapes import pieces, put_together, take
from runtimes.signal_stack import kept_signal_stack

# Importing openvino starts a thread that sends data to its maker, unless this package of its own is
# absent. An app that wants it imports it before us.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

import openvino as ov  # type: ignore[import-untyped]  # noqa: E402
from openvino.frontend import FrontEndManager  # type: ignore[import-untyped]  # noqa: E402

__all__ = ["MAX_LENGTH_KEY", "OpenVinoBackend", "ov"]

MAX_LENGTH_KEY = ["edgebert", "max_length"]
"""Where a model says, among its ``rt_info``, how many tokens it takes."""

_VERSION = ov.get_version().partition("-")[0]
_MOST_REQUESTS = 4  # they take turns on one stream; a second one's inputs are ready when it is due
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_TOKEN_OUTPUTS = ("start_logits", "end_logits", "last_hidden_state")
_OUTPUTS = (
    *("logits", "start_logits", "end_logits"),
    *("last_hidden_state", "token_embeddings", "sentence_embedding"),
)


class OpenVinoBackend:
    """Runs ``openvino/openvino_model*.xml`` with the ``.bin`` beside it.

    An infer request serves one thread at a time, so there is a pool of them.
    """

    engine = f"openvino {_VERSION}"

    def __init__(self, artifact: Path, options: SessionOptions) -> None:
        """Compile the model for the CPU, in float32.

        Raises:
            BackendRunError: The files are no model that this version can run, or the engine would
                compute in less than float32.
        """
        self._artifact = artifact
        try:
            reader = FrontEndManager().load_by_framework("ir")  # no other format's parser sees it
            model = reader.convert(reader.load(str(artifact)))
            told = model.has_rt_info(MAX_LENGTH_KEY)
            limit = int(model.get_rt_info(MAX_LENGTH_KEY).value) if told else options.max_length
            # A Core of its own: a forked child must share nothing with its parent's.
            with kept_signal_stack():
                compiled = ov.Core().compile_model(model, "CPU", _settings(options))
            precision = compiled.get_property("INFERENCE_PRECISION_HINT")
        except Exception as error:  # the engine's errors have no parent of their own
            raise BackendRunError(
                f"{self.engine} can't open {artifact}: {_plain(error)} The file or its .bin is "
                "damaged, or made for a newer engine; `edgebert verify` on the bundle tells which."
            ) from error
        if precision != ov.Type.f32:
            raise BackendRunError(
                f"{self.engine} would run {artifact} in {precision}, though float32 was asked for: "
                "its results can't be trusted here. Take another backend, such as 'onnx'."
            )
        ranks = [port.get_partial_shape().rank for port in compiled.inputs]
        self._ranks = {
            _name(port, _INPUTS): rank.get_length() if rank.is_static else None
            for port, rank in zip(compiled.inputs, ranks, strict=True)
        }
        self.inputs = list(self._ranks)
        self.outputs = [known_name(_name(port, _OUTPUTS)) for port in compiled.outputs]
        self._per_token = [
            _is_per_token(name, port.get_partial_shape())
            for name, port in zip(self.outputs, compiled.outputs, strict=True)
        ]
        # without a mask, padding would count as text
        self._limit = limit if "attention_mask" in self.inputs else None
        self._requests: Pool[ov.InferRequest] | None = Pool(
            compiled.create_infer_request, limit=_MOST_REQUESTS
        )

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """See `runtimes.base.Backend.run`."""
        requests = self._requests
        if requests is None:
            raise BackendRunError(f"{self._artifact} was closed; open it again.")
        try:
            with requests.borrow() as request:
                return self._run_pieces(request, batch)
        except Exception as error:  # as above
            shape = list(batch.input_ids.shape)
            raise BackendRunError(
                f"{self.engine} failed on {self._artifact} with a batch of {shape} tokens: "
                f"{_plain(error)}"
            ) from error

    def close(self) -> None:
        """See `runtimes.base.Backend.close`."""
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.close()

    def _run_pieces(self, request: ov.InferRequest, batch: Batch) -> dict[str, FloatArray]:
        """Run a batch in the shapes that `runtimes.shapes` allows."""
        cut = list(pieces(batch, limit=self._limit))
        found: list[list[FloatArray]] = []  # by piece, then by output
        for piece in cut:
            request.infer(feed(take(batch, piece), self._ranks), share_inputs=True)
            tensors = [request.get_output_tensor(index) for index in range(len(self.outputs))]
            # Copies: the request's own memory is overwritten by its next run.
            found.append([np.array(tensor.data, dtype=np.float32) for tensor in tensors])
        return {
            name: put_together(list(zip(cut, values, strict=True)), batch, per_token=per_token)
            for name, per_token, values in zip(
                self.outputs, self._per_token, zip(*found, strict=True), strict=True
            )
        }


def _settings(options: SessionOptions) -> dict[str, Any]:  # values of three types
    settings: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,  # two processes would be pinned to the same cores
        "CACHE_DIR": "",
    }
    if options.threads is not None:
        settings["INFERENCE_NUM_THREADS"] = options.threads
    return settings


def _is_per_token(name: str, shape: Any) -> bool:
    """Tell whether an output's second axis is that of the tokens, as in ``[batch, seq, …]``.

    An open axis alone doesn't tell: some exporters leave that of labels, choices or vectors open.
    """
    if name in _TOKEN_OUTPUTS:
        return True
    return bool(shape.rank.is_static and len(shape) > 2 and shape[1].is_dynamic)


def _name(port: Any, known: tuple[str, ...]) -> str:
    """Name an input or output; of several names the known one, else the first."""
    names: list[str] = sorted(port.get_names())
    if not names:
        raise BackendRunError("The model has an input or output without a name; export it again.")
    return next((name for name in names if name in known), names[0])


def _plain(error: Exception) -> str:
    """Say what an engine's error says, without the places in its source code."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    text = one_line(" ".join(kept or lines))
    return text if text.endswith((".", "!")) else f"{text}."
