"""Engines that stand in for others: they run the tiny ONNX models, at a pace of their own."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any, ClassVar

from edgebert.errors import BackendRunError
from edgebert.formats.manifest import FileRecord
from edgebert.types import Batch, FloatArray
from runtimes import BackendSpec
from runtimes.base import SessionOptions


class Fake:
    """Runs ``<name>/model.onnx`` on ONNX Runtime after a rest.

    Attributes:
        opened: Files that engines of this module have opened, in order.
        open_now: How many of them weren't closed.
    """

    engine = "fake 1"
    rest_seconds = 0.0
    sick_at: ClassVar[int | None] = None  # tokens
    opened: ClassVar[list[str]] = []
    open_now: ClassVar[int] = 0

    def __init__(self, artifact: Path, options: SessionOptions) -> None:
        from runtimes.onnx import OnnxBackend

        Fake.opened.append(artifact.as_posix())
        self._inner = OnnxBackend(artifact, options)
        self.inputs, self.outputs = self._inner.inputs, self._inner.outputs
        Fake.open_now += 1

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        time.sleep(self.rest_seconds)
        if batch.input_ids.shape[1] == self.sick_at:
            raise BackendRunError(f"{self.engine} failed at {self.sick_at} tokens.")
        return self._inner.run(batch)

    def close(self) -> None:
        self._inner.close()
        Fake.open_now -= 1


class Quick(Fake):
    engine = "quick 1"


class Slow(Fake):
    engine = "slow 1"
    rest_seconds = 0.001


class Sick(Fake):
    """As fast as `Quick`, but fails on a text of 32 tokens, which no golden text has."""

    engine = "sick 1"
    sick_at = 32


def install(monkeypatch: Any, *names: str) -> None:
    """Make backends of this module the only ones there are: ``quick``, ``slow``, ``sick``."""
    # "json" is always there, and has no version that could be too old
    table = {
        name: BackendSpec(f"tests.edgebert.fakes:{name.title()}", requires=("json",), extra=name)
        for name in names
    }
    monkeypatch.setattr("runtimes.BACKENDS", table)
    for module in ("bundle", "installed"):
        monkeypatch.setattr(f"edgebert.bundles.{module}.BACKENDS", table)
    monkeypatch.setattr(Fake, "opened", [])
    monkeypatch.setattr(Fake, "open_now", 0)


def move_artifacts(directory: Path, *kinds: str) -> None:
    """Give a bundle copies of its FP32 model as its only artifacts, named ``quick/int8``."""
    path = directory / "edgebert.json"
    data = json.loads(path.read_text())
    model = next(item for item in data["artifacts"] if item["precision"] == "fp32")
    source = directory / model["files"][0]["path"]
    artifacts = []
    for kind in kinds:
        backend, precision = kind.split("/")
        target = f"{backend}/model_{precision}.onnx"
        (directory / backend).mkdir(exist_ok=True)
        shutil.copyfile(source, directory / target)
        own = {"backend": backend, "precision": precision, "min_engine": "json 1.0"}
        artifacts.append({**model, **own, "files": [vars(FileRecord.of(directory, target))]})
    path.write_text(json.dumps({**data, "artifacts": artifacts}))
