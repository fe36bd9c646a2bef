"""What was measured of a model whose texts may leave early."""

from __future__ import annotations

from dataclasses import dataclass

from compress.reporting.records import GateRecord


@dataclass(frozen=True, kw_only=True)
class DepthRecord:
    """What the first layers alone come to.

    Attributes:
        layers: How many; the last one's exit answers.
        dev_score: On dev.
        score: On the report's split.
    """

    layers: int
    dev_score: float
    score: float


@dataclass(frozen=True, kw_only=True)
class ExitRecord:
    """A model in segments on one engine, each layer with its exit.

    Attributes:
        backend: ``onnx`` or ``openvino``.
        precision: ``fp32`` or ``int8``.
        budget: Part of the metric on dev, through all layers, that leaving early may cost.
        gate: Its own gate; of INT8 on what it says of texts that leave early.
        size_bytes: Of all segments; None for one that is refused, as all of the following.
        threshold: Below this entropy a text leaves; 0 where nothing can be saved within the budget.
        dev_layers: Layers that a text of dev goes through on average.
        layers: And one of the report's split.
        dev_score: What leaving early scores on dev.
        score: And on the report's split.
        depths: One row for each number of layers; the last is all of them.
    """

    backend: str
    precision: str
    budget: float
    gate: GateRecord
    size_bytes: int | None = None
    threshold: float | None = None
    dev_layers: float | None = None
    layers: float | None = None
    dev_score: float | None = None
    score: float | None = None
    depths: tuple[DepthRecord, ...] = ()

    @property
    def name(self) -> str:
        """Like ``onnx int8``."""
        return f"{self.backend} {self.precision}"
