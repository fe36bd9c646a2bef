"""What was cut, what is left, and what it cost on dev."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compress.pruning.units import FP32_BYTES, Shape
from compress.reporting import format as show

RESULT_NAME = "prune.json"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A model before it was cut, or after.

    Attributes:
        num_hidden_layers: Of the encoder.
        heads: Over all layers.
        neurons: Of each layer.
        hidden_size: Of the model.
        params: Number of its parameters; the zeros of pruned heads don't count.
        layer_params: Those of the encoder's layers.
        size_bytes: FP32 bytes of these parameters, as artifacts hold them.
        checkpoint_bytes: Of the weights on disk, which hold the zeros of pruned heads too.
        dev: Metrics on dev; empty where nothing could be measured.
        test: Metrics on test; None without one.
    """

    num_hidden_layers: int
    heads: int
    neurons: int
    hidden_size: int
    params: int
    layer_params: int
    size_bytes: int
    checkpoint_bytes: int
    dev: dict[str, float]
    test: dict[str, float] | None

    @classmethod
    def of(
        cls,
        shape: Shape,
        dev: dict[str, float],
        test: dict[str, float] | None,
        directory: Path,
    ) -> Side:
        """Describe a model that stands in a directory."""
        files = directory.glob("model*.safetensors")
        return cls(
            num_hidden_layers=shape.layers,
            heads=sum(shape.heads),
            neurons=shape.neurons,
            hidden_size=shape.hidden_size,
            params=shape.params,
            layer_params=shape.layer_params,
            size_bytes=FP32_BYTES * shape.params,
            checkpoint_bytes=sum(file.stat().st_size for file in files),
            dev=dev,
            test=test,
        )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What is left of a layer.

    Attributes:
        layer: Its number in the model that was given, from 1.
        heads: Numbers of the heads that are left, from 0.
        neurons: How many are left.
    """

    layer: int
    heads: tuple[int, ...]
    neurons: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """One cut, and the recovery after it.

    Attributes:
        params: Number of parameters that were left.
        cut: Metrics on dev right after the cut; empty where nothing could be measured.
        recovered: Metrics on dev after the recovery; None without one.
    """

    params: int
    cut: dict[str, float]
    recovered: dict[str, float] | None


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How long one text takes in FP32, before and after, timed by turns.

    Attributes:
        engine: A backend's name, or ``torch``.
        threads: Of the engine.
        tokens: Of the text.
        before_ms: Median.
        after_ms: Median.
        core_share: Part of a core that each thread got around the timing; 1 on a quiet machine.
        quiet: Whether that is enough for times and ratios that can be trusted.
    """

    engine: str
    threads: int
    tokens: int
    before_ms: float
    after_ms: float
    core_share: float
    quiet: bool

    @property
    def ratio(self) -> float:
        """How many times as fast."""
        return self.before_ms / self.after_ms

    @property
    def busy(self) -> str:
        """Say in a sentence that others used the processor."""
        return (
            "The machine was busy while latency was measured (each thread got "
            f"{self.core_share:.0%} of a core), so times and their ratio can't be trusted."
        )


@dataclass(frozen=True, kw_only=True)
class Zeros:
    """What zeroing single weights is good for: a smaller file where it is compressed.

    Attributes:
        zeros: In the matrices of the layers.
        weights: All that these hold.
        gzip_before_bytes: Of the weights on disk, compressed by gzip.
        gzip_after_bytes: The same of those with the zeros.
        faster: Always False: engines multiply zeros like other numbers.
    """

    zeros: int
    weights: int
    gzip_before_bytes: int
    gzip_after_bytes: int
    faster: bool = False


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """What ``prune.json`` holds.

    Attributes:
        model: What was taken, a directory or a hub id.
        task: What it is for.
        importance: ``taylor``, ``magnitude`` or ``movement``.
        metric: The one of dev that counts.
        before: The model that was taken.
        after: The model that was made of it.
        layers: What is left, layer by layer.
        rounds: In their order.
        speed: As measured when all was done.
        speedup: How many times as fast that is.
        target_speedup: What was asked for; None where it wasn't.
        unstructured: What zeros did; None where whole parts were cut.
        warnings: What a reader must know, like a metric at chance.
    """

    model: str
    task: str
    importance: str
    metric: str
    before: Side
    after: Side
    layers: tuple[Layer, ...]
    rounds: tuple[Round, ...]
    speed: Speed
    speedup: float
    target_speedup: float | None = None
    unstructured: Zeros | None = None
    warnings: tuple[str, ...]


def load_result(directory: Path) -> PruneResult:
    """Read the result of a finished run."""
    data: dict[str, Any] = json.loads((directory / RESULT_NAME).read_text(encoding="utf-8"))
    layers = [Layer(**{**one, "heads": tuple(one["heads"])}) for one in data.pop("layers")]
    zeros = data.pop("unstructured")
    return PruneResult(
        before=Side(**data.pop("before")),
        after=Side(**data.pop("after")),
        layers=tuple(layers),
        rounds=tuple(Round(**one) for one in data.pop("rounds")),
        speed=Speed(**data.pop("speed")),
        unstructured=None if zeros is None else Zeros(**zeros),
        warnings=tuple(data.pop("warnings")),
        **data,
    )


def format_result(result: PruneResult) -> str:
    """Write a result as a table for a terminal, in plain ASCII."""
    rows = [("", "before", "after"), *_rows(result)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2])])
        for row in rows
    ]
    for number, one in enumerate(result.rounds, start=1):
        after = [(one.cut, "the cut"), (one.recovered, "the recovery")]
        parts = [f"{show.score(dev.get(result.metric))} after {what}" for dev, what in after if dev]
        lines.append(f"round {number}: {', '.join(parts)}" if parts else f"round {number}: -")
    lines.append(_speed_line(result))
    warnings = list(result.warnings)
    if not result.speed.quiet:
        warnings.append(f"{result.speed.busy} Measure again on a quiet machine.")
    return "\n".join([*lines, *(f"WARNING: {text}" for text in warnings)])


def _rows(result: PruneResult) -> list[tuple[str, str, str]]:
    sides, speed, zeros = (result.before, result.after), result.speed, result.unstructured
    rows = [
        _row("layers", [show.count(side.num_hidden_layers) for side in sides]),
        _row("hidden size", [show.count(side.hidden_size) for side in sides]),
        _row("attention heads", [show.count(side.heads) for side in sides]),
        _row("neurons a layer", [show.count(side.neurons) for side in sides]),
        _row("parameters", [show.params(side.params) for side in sides]),
        _row("of the layers", [show.params(side.layer_params) for side in sides]),
        _row("FP32 size", [show.megabytes(side.size_bytes) for side in sides]),
        _row("checkpoint", [show.megabytes(side.checkpoint_bytes) for side in sides]),
    ]
    if zeros is not None:
        sizes = (zeros.gzip_before_bytes, zeros.gzip_after_bytes)
        rows.append(_row("checkpoint, gzip", [show.megabytes(size) for size in sizes]))
    times = (speed.before_ms, speed.after_ms)
    name = f"{speed.tokens} tokens on {speed.engine}"
    rows.append(_row(name, [show.milliseconds(time) for time in times]))
    rows.append(
        _row(f"dev {result.metric}", [show.score(side.dev.get(result.metric)) for side in sides])
    )
    tested = [side.test for side in sides if side.test is not None]
    if tested:
        rows.append(
            _row(f"test {result.metric}", [show.score(one.get(result.metric)) for one in tested])
        )
    return rows


def _speed_line(result: PruneResult) -> str:
    """Say in one line how much faster the model is; zeros make none faster, whatever a clock says.

    What a clock says of equal work is noise.
    """
    speed, zeros = result.speed, result.unstructured
    threads = "1 thread" if speed.threads == 1 else f"{speed.threads} threads"
    where = f"{speed.engine}, FP32, one text of {speed.tokens} tokens, {threads}"
    if zeros is not None:
        share = show.percent(zeros.zeros / zeros.weights)
        return (
            f"no faster: {share} of the layers' weights are zeros, which engines multiply like "
            f"other numbers; measured {result.speedup:.2f} times as fast ({where})"
        )
    asked = f", {result.target_speedup:g} asked for" if result.target_speedup else ""
    return f"{result.speedup:.2f} times as fast{asked} ({where})"


def _row(name: str, values: Sequence[str]) -> tuple[str, str, str]:
    return (name, values[0], values[1])
