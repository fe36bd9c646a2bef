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
class PruneResult:
    """What ``prune.json`` holds.

    Attributes:
        model: What was taken, a directory or a hub id.
        task: What it is for.
        importance: ``taylor`` or ``magnitude``.
        metric: The one of dev that counts.
        before: The model that was taken.
        after: The model that was made of it.
        layers: What is left, layer by layer.
        rounds: In their order.
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
    warnings: tuple[str, ...]


def load_result(directory: Path) -> PruneResult:
    """Read the result of a finished run."""
    data: dict[str, Any] = json.loads((directory / RESULT_NAME).read_text(encoding="utf-8"))
    layers = [Layer(**{**one, "heads": tuple(one["heads"])}) for one in data.pop("layers")]
    return PruneResult(
        before=Side(**data.pop("before")),
        after=Side(**data.pop("after")),
        layers=tuple(layers),
        rounds=tuple(Round(**one) for one in data.pop("rounds")),
        warnings=tuple(data.pop("warnings")),
        **data,
    )


def format_result(result: PruneResult) -> str:
    """Write a result as a table for a terminal, in plain ASCII."""
    sides = (result.before, result.after)
    rows = [("", "before", "after")]
    rows += [
        _row("layers", [show.count(side.num_hidden_layers) for side in sides]),
        _row("attention heads", [show.count(side.heads) for side in sides]),
        _row("neurons a layer", [show.count(side.neurons) for side in sides]),
        _row("parameters", [show.params(side.params) for side in sides]),
        _row("of the layers", [show.params(side.layer_params) for side in sides]),
        _row("FP32 size", [show.megabytes(side.size_bytes) for side in sides]),
        _row("checkpoint", [show.megabytes(side.checkpoint_bytes) for side in sides]),
        _row(f"dev {result.metric}", [show.score(side.dev.get(result.metric)) for side in sides]),
    ]
    tested = [side.test for side in sides if side.test is not None]
    if tested:
        rows.append(
            _row(f"test {result.metric}", [show.score(one.get(result.metric)) for one in tested])
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2])])
        for row in rows
    ]
    for number, one in enumerate(result.rounds, start=1):
        line = f"round {number}: {show.score(one.cut.get(result.metric))} after the cut"
        if one.recovered is not None:
            line += f", {show.score(one.recovered.get(result.metric))} after the recovery"
        lines.append(line)
    return "\n".join([*lines, *(f"WARNING: {text}" for text in result.warnings)])


def _row(name: str, values: Sequence[str]) -> tuple[str, str, str]:
    return (name, values[0], values[1])
