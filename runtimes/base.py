"""What every engine looks like from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgebert.errors import InputError
from edgebert.types import Batch, FloatArray

MAX_THREADS = 1024
"""Engines start as many as they are told to; a million take all of a machine's memory."""


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """How an engine may use the machine.

    Attributes:
        threads: Threads for one call, 1 to `MAX_THREADS`, or None for the engine's own choice.
        spin: Whether idle threads wait at full speed. It costs a whole core between calls
            (184 % CPU against 0.4 % in a public report) and saves a tenth of the latency.
        max_length: Longest row that the model takes, in tokens, for an engine that pads rows to
            few lengths and a file that doesn't say; None where that isn't known.
    """

    threads: int | None = None
    spin: bool = False
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise InputError(f"threads is {self.threads}; it must be from 1 to {MAX_THREADS}.")
        if self.max_length is not None and self.max_length < 1:
            raise InputError(f"max_length is {self.max_length}; it must be 1 or more.")


class Backend(Protocol):
    """A model opened on an engine; made by ``(artifact: Path, options: SessionOptions)``.

    `run` may be called from many threads at once.
    """

    @property
    def engine(self) -> str:
        """Name and version, as ``onnxruntime 1.32.0``."""

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the inputs that the model declares."""

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs that the model declares."""

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run the model on the inputs that it declares, bound by name.

        Returns:
            Every output by name: ``logits`` float32 ``[batch, labels]``, or ``last_hidden_state``
            float32 ``[batch, seq, hidden]``. Where a text is padded, the values of its tokens mean
            nothing: an engine may have left them out, and then they are 0.

        Raises:
            BackendRunError: The engine failed.
        """

    def close(self) -> None:
        """Give back the engine's memory; the backend can't be used afterwards."""


def one_line(error: object) -> str:
    """Give an engine's message without its line breaks."""
    return " ".join(str(error).split())
