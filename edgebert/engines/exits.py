"""A model in segments, a layer each: a text leaves at the first exit that is sure of its label.

After every segment the rows that left are taken out of the batch, and what goes on is cut to its
longest text (Xin et al., 2020; Liu et al., 2020, who measure how sure an exit is by its entropy).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgebert.engines.engine import Engine
from edgebert.errors import BundleError
from edgebert.formats.exits import ExitArtifact
from edgebert.formats.manifest import Manifest
from edgebert.pooling import HIDDEN
from edgebert.types import Batch, FloatArray, HiddenBatch, IntArray
from runtimes import Backend, SessionOptions

LOGITS, EXIT_LAYER, HIDDEN_STATES = "logits", "exit_layer", "hidden_states"

# A row's logits may differ by 1e-5 of the largest beside other rows. If no logit is off by more
# than d, the entropy H isn't by more than 2 d H: its slopes p (log p + H) add up to 2 H at most. A
# row whose entropy is as near to the threshold as 1e-3 of it is decided alone, so that the others
# of a batch can't change its layer.
_DOUBT = 1e-3

Run = Callable[[Batch], dict[str, FloatArray]]


def entropies(logits: FloatArray) -> npt.NDArray[np.float64]:
    """Say how unsure each row is: the entropy of its softmax, in units of the largest possible.

    Args:
        logits: float32 ``[n, labels]``, two labels or more.

    Returns:
        float64 ``[n]``, from 0 for one label alone to 1 for all alike.
    """
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(axis=1)
    found = np.log(total) - (weights * shifted).sum(axis=1) / total
    return np.asarray(np.clip(found / math.log(logits.shape[1]), 0.0, 1.0))


def run_exits(
    segments: Sequence[Run], batch: Batch, threshold: float
) -> tuple[FloatArray, IntArray]:
    """Run a batch through segments, each row until it leaves.

    Args:
        segments: The first takes token ids, the others a `HiddenBatch`.
        batch: Rows padded on the right.
        threshold: A row leaves where its entropy is below: with 0 none does before the last layer,
            with 1 all do at the first.

    Returns:
        Logits of the exit that each row left by, float32 ``[n, labels]``, and that exit's layer,
        from 1, int64 ``[n]``. A row leaves where it would alone.
    """
    going, rows = batch, np.arange(len(batch.input_ids))
    layers = np.zeros(len(rows), dtype=np.int64)
    logits = np.empty((len(rows), 0), dtype=np.float32)
    doubtful: list[int] = []
    for layer, run in enumerate(segments, start=1):
        outputs = run(going)
        found = outputs[LOGITS]
        if layer == 1:
            logits = np.empty_like(found)
        gone, near = _leaving(found, threshold if layer < len(segments) else 1.0)
        if len(layers) > 1:
            doubtful += rows[near].tolist()
            gone |= near
        logits[rows[gone]], layers[rows[gone]] = found[gone], layer
        if gone.all():
            break
        going, rows = _onward(going, outputs[HIDDEN], ~gone), rows[~gone]
    for row in doubtful:
        one = batch.take(np.array([row]), int(batch.attention_mask[row].sum()))
        own, layer_alone = run_exits(segments, one, threshold)
        logits[row], layers[row] = own[0], layer_alone[0]
    return logits, layers


def _leaving(
    logits: FloatArray, threshold: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Say which rows leave, and which are too near to the threshold to say; bool ``[n]`` each."""
    never = np.zeros(len(logits), dtype=np.bool_)
    if threshold in (0, 1):
        return (never if threshold == 0 else ~never), never
    unsure = entropies(logits)
    return unsure < threshold, np.abs(unsure - threshold) <= _DOUBT * threshold


def _onward(batch: Batch, hidden: FloatArray, kept: npt.NDArray[np.bool_]) -> HiddenBatch:
    """Give the rows that go on, cut to the longest of them."""
    whole = with_hidden(batch, hidden)
    return whole.take(np.flatnonzero(kept), int(batch.attention_mask[kept].sum(axis=1).max()))


def with_hidden(batch: Batch, hidden: FloatArray) -> HiddenBatch:
    """Put what a segment gave in the place of what the batch had."""
    return HiddenBatch(
        batch.input_ids, batch.attention_mask, batch.token_type_ids, batch.dropped_tokens, hidden
    )


class ExitChain:
    """Segments behind each other as one `runtimes.base.Backend`, for tests of every exit.

    Its ``logits`` are those of all exits, float32 ``[batch, layers * labels]``.

    Attributes:
        segments: In their order.
    """

    outputs = (LOGITS,)

    def __init__(self, segments: Sequence[Backend]) -> None:
        """Take open segments; `close` closes them."""
        self.segments = segments
        self.engine, self.inputs = segments[0].engine, segments[0].inputs

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run all segments on all rows."""
        found = []
        for segment in self.segments:
            outputs = segment.run(batch)
            found.append(outputs[LOGITS])
            if HIDDEN in outputs:
                batch = with_hidden(batch, outputs[HIDDEN])
        return {LOGITS: np.concatenate(found, axis=1)}

    def close(self) -> None:
        """Close the segments."""
        for segment in self.segments:
            segment.close()


class ExitEngine(Engine):
    """An artifact in segments; its sessions are those of the segments, each an `Engine`."""

    artifact: ExitArtifact

    def __init__(
        self,
        directory: Path,
        artifact: ExitArtifact,
        options: SessionOptions,
        *,
        manifest: Manifest,
    ) -> None:
        """Open the segments; for the arguments and errors see `Engine`."""
        self.artifact = artifact
        self._labels = len(manifest.labels)
        self._segments: list[Engine] = []
        try:
            for number in range(artifact.num_hidden_layers):
                self._segments.append(
                    Engine(
                        directory,
                        artifact.segment(number),
                        options,
                        manifest=manifest,
                        ports=_ports(number, artifact.num_hidden_layers),
                    )
                )
        except BaseException:
            self.close()
            raise
        self.name = self._segments[0].name

    def backend(self) -> Backend:
        """Give this process's own segments as one, see `ExitChain`."""
        return ExitChain([segment.backend() for segment in self._segments])

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """Run a batch until every row has left.

        Returns:
            ``logits`` float32 ``[batch, labels]``, and ``exit_layer`` float32 ``[batch]``.

        Raises:
            BackendRunError: The engine failed, or gave NaN or infinity.
            BundleError: A segment gives arrays of other shapes.
        """
        logits, layers = run_exits(self._runs(), batch, self.artifact.threshold)
        return {LOGITS: logits, EXIT_LAYER: layers.astype(np.float32)}

    def warm(self, batch: Batch) -> None:
        """Run all segments on a batch."""
        run_exits(self._runs(), batch, 0.0)

    def close(self) -> None:
        """Give back the memory of all segments in this process."""
        for segment in self._segments:
            segment.close()

    def _runs(self) -> list[Run]:
        return [self._checked(segment.run) for segment in self._segments]

    def _checked(self, run: Run) -> Run:
        """Refuse outputs of a stranger's graph that don't fit the batch."""

        def checked(batch: Batch) -> dict[str, FloatArray]:
            outputs = run(batch)
            rows, length = batch.input_ids.shape
            logits, hidden = outputs[LOGITS], outputs.get(HIDDEN)
            if logits.shape != (rows, self._labels) or (
                hidden is not None and (hidden.ndim != 3 or hidden.shape[:2] != (rows, length))
            ):
                raise BundleError(
                    f"A segment gives logits of shape {list(logits.shape)} and hidden states of "
                    f"{None if hidden is None else list(hidden.shape)} for {rows} texts of "
                    f"{length} tokens and {self._labels} labels. Export it again."
                )
            return outputs

        return checked


def _ports(number: int, layers: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the inputs that a segment may have and the outputs that it must have."""
    tokens = ("input_ids", "attention_mask", "token_type_ids")
    inputs = (HIDDEN_STATES, "attention_mask") if number else tokens
    # the last of all has no hidden states; the last of those that are opened may have some
    return inputs, (LOGITS,) if number == layers - 1 else (LOGITS, HIDDEN)
