"""What a shape takes on the real engine: exported with random weights, weighed and timed."""

from __future__ import annotations

import json
import logging
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from compress.artifacts.exporters import get_exporter, plan_export
from compress.artifacts.make import FAILURES, open_engine
from compress.artifacts.quantizer import Exporter, path_of
from compress.artifacts.quietest import quietest_latency
from compress.artifacts.tflite_graph import lengths_for
from compress.artifacts.timing import QUIET_SHARE
from compress.distillation.imitate import student_head
from compress.models.student import BuiltStudent
from compress.searching.budget import Budget, Cost
from compress.searching.config import SearchConfig
from compress.searching.estimate import Estimator
from compress.searching.shapes import Shape
from compress.training.teacher_step import ReadyTeacher
from edgebert.files import write_json
from edgebert.types import Batch
from runtimes.base import Backend

logger = logging.getLogger(__name__)

LENGTH = 32  # of the text that is timed; a TFLite file gets a graph for that alone
CALIBRATION_TEXTS = 16  # spans have no say in size and speed, only that there are some
REPEATS = 30
SURELY = 1.15  # times the limit: above it nothing that computes as much is measured any more


class ShapeMeter:
    """Measures shapes once, also over the runs of a resumed search.

    Args:
        estimator: Makes the models.
        teacher: Gives texts and what outputs mean.
        config: The settings.
        work: The run's work directory.
    """

    def __init__(
        self,
        estimator: Estimator,
        teacher: ReadyTeacher,
        config: SearchConfig,
        work: Path,
    ) -> None:
        self._exporter, self._estimator = _exporter_of(config.engine), estimator
        self._teacher, self._config = teacher, config
        self._recipes: dict[str, str] = {}  # the first one of each precision
        for recipe in plan_export((config.engine,), config.recipe).recipes[config.engine]:
            self._recipes.setdefault(self._exporter.recipes[recipe].precision, recipe)
        self._file, self._folder = work / "shapes.json", work / "shapes"
        self._known: dict[str, dict[str, Any]] = {}
        self._shapes: dict[str, Shape] = {}
        if self._file.is_file():
            self._known = json.loads(self._file.read_text(encoding="utf-8"))

    def costs(self, shape: Shape) -> dict[str, Cost]:
        """Measure a shape, by precision; empty where the engine can't hold it."""
        key = shape.runs_like
        if key not in self._known:
            costs, quiet = self._measure(shape)
            facts = {"vocab_size": shape.vocab_size, "quiet": quiet, "costs": costs}
            self._known[key] = facts
            write_json(self._file, self._known)
        self._shapes.setdefault(key, shape)
        known = self._known[key]
        then = Shape(shape.architecture, known["vocab_size"])
        return {
            precision: Cost(
                size_bytes=cost["size_bytes"]
                + self._estimated(shape, precision, self.lengths)
                - self._estimated(then, precision, (self._length,)),
                latency_ms=cost["latency_ms"],
            )
            for precision, cost in known["costs"].items()
        }

    def too_slow(self, shape: Shape, budget: Budget) -> str:
        """Say which smaller shape was too slow already; empty where none was.

        What was timed on a busy machine proves nothing.
        """
        limit = budget.max_latency_ms
        if limit is None:
            return ""
        for key, other in self._shapes.items():
            if not self._known[key]["quiet"]:
                continue
            times = [cost["latency_ms"] for cost in self._known[key]["costs"].values()]
            if times and min(times) > limit * SURELY and shape.no_faster_than(other):
                return f"{other.architecture}, which computes less, took {min(times):.2f} ms"
        return ""

    @property
    def precisions(self) -> tuple[str, ...]:
        """Name those in which artifacts are made."""
        return ("fp32", *self._recipes)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Give the lengths of inputs that an artifact is made for, where they are fixed."""
        return lengths_for(self._config.max_length)

    @property
    def _length(self) -> int:
        return min(LENGTH, self._config.max_length)

    def _estimated(self, shape: Shape, precision: str, lengths: tuple[int, ...]) -> int:
        backend = self._config.engine
        return self._estimator.size_bytes(shape, backend, precision, lengths=lengths)

    def _measure(self, shape: Shape) -> tuple[dict[str, dict[str, float]], bool]:
        """Give the costs by precision, and whether the machine was quiet."""
        self._folder.mkdir(exist_ok=True)
        tokens = np.minimum(self._teacher.encoded.dev.token_stream, shape.vocab_size - 1)
        with ExitStack() as opened, tempfile.TemporaryDirectory(dir=self._folder) as folder:
            made = self._make(shape, Path(folder), opened)
            if not made:
                return {}, False
            times, share = quietest_latency(
                {name: backend for name, (_, backend) in made.items()},
                tokens=tokens,
                max_length=self._length,
                threads=torch.get_num_threads(),
                repeats=REPEATS,
            )
            costs = {
                name: asdict(Cost(size_bytes=size, latency_ms=round(times[name], 4)))
                for name, (size, _) in made.items()
            }
            return costs, share >= QUIET_SHARE

    def _make(
        self, shape: Shape, folder: Path, opened: ExitStack
    ) -> dict[str, tuple[int, Backend]]:
        """Write and open the artifacts of a shape: bytes and engine by precision."""
        exporter, threads = self._exporter, torch.get_num_threads()
        model = self._estimator.untrained(shape)
        head = student_head(
            self._teacher.encoded.dev.head, BuiltStudent(model, "random", None), seed=0
        )
        made: dict[str, tuple[int, Backend]] = {}
        source = folder / exporter.fp32_path
        source.parent.mkdir(parents=True)
        try:
            exporter.export_fp32(model, head, source, max_length=self._length)
            made["fp32"] = self._open(exporter.fp32_path, folder, threads, opened)
            for precision, recipe in self._recipes.items():
                path = path_of(exporter, precision)
                calibration = self._calibration(shape)
                exporter.quantize(source, folder / path, recipe=recipe, calibration=calibration)
                made[precision] = self._open(path, folder, threads, opened)
        except FAILURES as error:
            logger.info("%s on %s: %s", shape, exporter.backend, error)
        return made

    def _open(
        self, path: str, folder: Path, threads: int, opened: ExitStack
    ) -> tuple[int, Backend]:
        backend = open_engine(self._exporter, folder / path, threads)
        opened.callback(backend.close)
        return sum((folder / name).stat().st_size for name in self._exporter.files(path)), backend

    def _calibration(self, shape: Shape) -> list[Batch]:
        batches = []
        for ids in self._teacher.encoded.train.rows.encoded.input_ids[:CALIBRATION_TEXTS]:
            row = np.minimum(ids, shape.vocab_size - 1)[None].astype(np.int64)  # [1, S]
            batches.append(
                Batch(row, np.ones_like(row), np.zeros_like(row), np.zeros(1, dtype=np.int64))
            )
        return batches


def _exporter_of(backend: str) -> Exporter:
    if backend != "tflite":
        return get_exporter(backend)
    from compress.artifacts.quantize_tflite import TfliteExporter

    return TfliteExporter(buckets=())
