"""ONNX Runtime."""

from __future__ import annotations

import os
from pathlib import Path

import onnxruntime as ort  # type: ignore[import-untyped]

from edgebert.errors import BackendRunError
from edgebert.types import Batch, FloatArray
from runtimes.base import SessionOptions, one_line
from runtimes.cpu import has_vnni
from runtimes.names import feed, known_name

_ERRORS_ONLY = 3

# For an app that imported onnxruntime before us; else `edgebert/__init__.py` has refused it whole.
if os.environ.get("ORT_DISABLE_TELEMETRY") != "0":
    ort.disable_telemetry_events()


class OnnxBackend:
    """Runs ``onnx/model*.onnx``. ONNX Runtime sessions are thread-safe, so no lock is needed."""

    engine = f"onnxruntime {ort.__version__}"

    def __init__(self, artifact: Path, options: SessionOptions) -> None:
        """Open the model on the CPU.

        Raises:
            BackendRunError: The file is no model that this version can run.
        """
        self._artifact = artifact
        try:
            self._session: ort.InferenceSession | None = ort.InferenceSession(
                str(artifact), _settings(options), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the engine's errors have no parent of their own
            raise BackendRunError(
                f"{self.engine} can't open {artifact}: {one_line(error)} The file is damaged, or "
                "made for a newer engine; `edgebert verify` on the bundle tells which."
            ) from error
        nodes = self._session.get_inputs()
        self._ranks = {node.name: len(node.shape) for node in nodes}
        self.inputs = list(self._ranks)
        self._output_names = [node.name for node in self._session.get_outputs()]
        self.outputs = list(map(known_name, self._output_names))

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """See `runtimes.base.Backend.run`."""
        session = self._session
        if session is None:
            raise BackendRunError(f"{self._artifact} was closed; open it again.")
        try:
            found = session.run(self._output_names, feed(batch, self._ranks))
            return dict(zip(self.outputs, found, strict=True))
        except Exception as error:  # as above
            shape = list(batch.input_ids.shape)
            raise BackendRunError(
                f"{self.engine} failed on {self._artifact} with a batch of {shape} tokens: "
                f"{one_line(error)}"
            ) from error

    def close(self) -> None:
        """See `runtimes.base.Backend.close`."""
        self._session = None


def _settings(options: SessionOptions) -> ort.SessionOptions:
    settings = ort.SessionOptions()
    settings.log_severity_level = _ERRORS_ONLY
    if options.threads is not None:
        settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    spin = "1" if options.spin else "0"
    settings.add_session_config_entry("session.intra_op.allow_spinning", spin)
    if not has_vnni():  # it makes MiniLM in INT8 1.7 times slower, where nothing can saturate too
        settings.add_session_config_entry("session.x64quantprecision", "1")
    return settings
