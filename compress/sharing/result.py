"""What is shared, how many bytes that saved, and what it cost on dev."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compress.pruning.units import FP32_BYTES
from compress.reporting import format as show
from compress.reporting.table import aligned
from compress.sharing.config import Shared

RESULT_NAME = "share.json"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A model before it shared, or after.

    Attributes:
        num_hidden_layers: Layers that are computed.
        num_hidden_groups: Sets of weights that these have.
        embedding_size: Width of the embedding tables.
        params: Number of its parameters, shared ones counted once.
        size_bytes: FP32 bytes of these parameters, as artifacts hold them.
        checkpoint_bytes: Of the weights on disk.
        dev: Metrics on dev; empty where nothing could be measured.
        test: Metrics on test; None without one.
    """

    num_hidden_layers: int
    num_hidden_groups: int
    embedding_size: int
    params: int
    size_bytes: int
    checkpoint_bytes: int
    dev: dict[str, float]
    test: dict[str, float] | None

    @classmethod
    def of(
        cls, model: Any, directory: Path, *, dev: dict[str, float], test: dict[str, float] | None
    ) -> Side:
        """Describe a model, a `transformers` one, that stands in a directory."""
        config, params = model.config, sum(one.numel() for one in model.parameters())
        layers, files = int(config.num_hidden_layers), directory.glob("model*.safetensors")
        return cls(
            num_hidden_layers=layers,
            num_hidden_groups=int(getattr(config, "num_hidden_groups", layers)),
            embedding_size=int(getattr(config, "embedding_size", config.hidden_size)),
            params=params,
            size_bytes=FP32_BYTES * params,
            checkpoint_bytes=sum(file.stat().st_size for file in files),
            dev=dev,
            test=test,
        )


@dataclass(frozen=True, kw_only=True)
class ShareResult:
    """What ``share.json`` holds.

    Attributes:
        model: What was taken, a directory or a hub id.
        task: What it is for.
        metric: The one of dev that counts.
        share: What the layers of a group share: all of their weights, or those of a part.
        start: What a group began with: ``mean`` of its layers' weights, or its ``first`` layer's;
            ``mean`` where each layer keeps its own, which is the same.
        starts: Metrics on dev right after each start that was tried, before any recovery.
        before: The model that was taken.
        after: The model that was made of it.
        warnings: What a reader must know, like a metric at chance.
    """

    model: str
    task: str
    metric: str
    share: Shared = "all"
    start: str
    starts: dict[str, dict[str, float]]
    before: Side
    after: Side
    warnings: tuple[str, ...]


def load_result(directory: Path) -> ShareResult:
    """Read the result of a finished run."""
    data: dict[str, Any] = json.loads((directory / RESULT_NAME).read_text(encoding="utf-8"))
    return ShareResult(
        before=Side(**data.pop("before")),
        after=Side(**data.pop("after")),
        warnings=tuple(data.pop("warnings")),
        **data,
    )


def format_result(result: ShareResult) -> str:
    """Write a result as a table for a terminal, in plain ASCII."""
    before, after = result.before, result.after
    rows = [["", "before", "after"]]
    part = "" if result.share == "all" else f"{result.share} "
    for name, key in (
        ("layers computed", "num_hidden_layers"),
        (f"sets of {part}weights", "num_hidden_groups"),
        ("embedding width", "embedding_size"),
    ):
        rows.append([name, *(show.count(getattr(side, key)) for side in (before, after))])
    rows.append(["parameters", show.params(before.params), show.params(after.params)])
    for name, key in (("FP32 size", "size_bytes"), ("checkpoint", "checkpoint_bytes")):
        rows.append([name, *(show.megabytes(getattr(side, key)) for side in (before, after))])
    for name, old, new in (("dev", before.dev, after.dev), ("test", before.test, after.test)):
        if old is not None and new is not None:
            scores = [show.score(one.get(result.metric)) for one in (old, new)]
            rows.append([f"{name} {result.metric}", *scores])
    return "\n".join(
        [
            *aligned([[*row, ""] for row in rows]),
            _start(result),
            "Sharing saves bytes, not time: as many layers are computed as before.",
            *(
                ["transformers opens it after `import compress.models.shared_bert`."]
                if part
                else []
            ),
            *(f"WARNING: {text}" for text in result.warnings),
        ]
    )


def _start(result: ShareResult) -> str:
    """Say what a group began with, and what dev was before any recovery."""
    scores = {name: show.score(dev.get(result.metric)) for name, dev in result.starts.items()}
    said = f"before recovery: dev {result.metric} {scores[result.start]}"
    if len(scores) == 1:
        return said
    words = {"mean": "the mean of a group's layers", "first": "a group's first layer"}
    others = [
        f"{words[name]} gave {score}" for name, score in scores.items() if name != result.start
    ]
    return f"{said}, from {words[result.start]}; {', '.join(others)}"
