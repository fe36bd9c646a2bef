"""Artifacts as they are made: exported or quantized, opened on their engine, and judged there."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import nn

from compress.artifacts.gate import (
    BATCH_MATES,
    fp32_parity,
    int8_gate,
    mates_difference,
    relative_error,
)
from compress.artifacts.quantizer import Exporter, oldest_for_all, path_of
from compress.artifacts.sensitivity import Int8Outcome, Quantization, quantize_until_passed
from compress.artifacts.timing import one_text_latency
from compress.reporting.records import GateRecord
from compress.scoring.probe import Probe, Rows, engine_rows, sample_probe, sample_values
from edgebert.cpu import cpu_name
from edgebert.errors import BackendError, GateError, ModelError
from edgebert.formats.manifest import Artifact, FileRecord
from edgebert.types import Batch, FloatArray
from runtimes import load_backend
from runtimes.base import Backend, SessionOptions

logger = logging.getLogger(__name__)

SENSITIVITY_TEXTS = 128
CLEARLY_FASTER = 0.95  # of a rival's time; less is noise, and the next export may differ
FAILURES = (BackendError, GateError, ModelError)  # what keeps one artifact out of a bundle


@dataclass(frozen=True, eq=False)
class OpenArtifact:
    """An artifact that passed its gate, open on its engine.

    Attributes:
        artifact: For the manifest; golden outputs are still to come.
        backend: The engine.
        gate: What the gate said.
        dev: Its rows of dev.
    """

    artifact: Artifact
    backend: Backend
    gate: GateRecord
    dev: Rows

    @property
    def name(self) -> str:
        """Like ``onnx/int8``."""
        return f"{self.artifact.backend}/{self.artifact.precision}"


def make_fp32(
    bundle: Path, exporter: Exporter, model: nn.Module, dev: Probe, *, max_length: int, threads: int
) -> OpenArtifact:
    """Export a model for an engine and hold it against torch at every shape.

    Args:
        bundle: Directory of the bundle.
        exporter: Of the engine.
        model: The torch reference.
        dev: Texts whose tokens are used; its head is the task's.
        max_length: Longest input in tokens.
        threads: Of the engine.

    Raises:
        ModelError: The engine can't hold the model.
        BackendError: It can't run it.
        GateError: It doesn't give what torch gives; the message is the gate's.
    """
    path = exporter.fp32_path
    (bundle / path).parent.mkdir(exist_ok=True)
    exported = exporter.export_fp32(model, dev.head, bundle / path, max_length=max_length)
    backend = open_engine(exporter, bundle / path, threads)
    try:
        gate = fp32_parity(model, backend, dev, max_length=max_length)
        if not gate.passed:
            raise GateError(" ".join(gate.reasons))
        invariant = gate.numbers.get("batch_mates", np.inf) <= BATCH_MATES
        rows = engine_rows(backend, dev, batch_invariant=invariant)
    except FAILURES:
        backend.close()
        raise
    artifact = Artifact(
        backend=exporter.backend,
        precision="fp32",
        files=tuple(FileRecord.of(bundle, name) for name in exporter.files(path)),
        recipe=exported.recipe,
        gated_on=cpu_name(),
        min_engine=exported.min_engine,
        batch_invariant=invariant,
        golden=(),
        tolerance=1.0,
    )
    return OpenArtifact(artifact, backend, gate, rows)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A quantized artifact by one recipe that passed its gate, not yet in its place."""

    recipe: str
    path: Path
    outcome: Int8Outcome
    dev: Rows
    batch_invariant: bool


def make_int8(
    bundle: Path,
    exporter: Exporter,
    dev: Probe,
    reference: FloatArray,
    *,
    calibration: Sequence[Batch],
    recipes: Sequence[str],
    threads: int,
    min_engine: str,
    precision: str = "int8",
) -> tuple[dict[str, Int8Outcome], OpenArtifact | None]:
    """Quantize the FP32 artifact so that the task's metric holds, or not at all.

    Args:
        bundle: Directory of the bundle, with the FP32 artifact.
        exporter: Of the engine.
        dev: Texts, and labels where there are.
        reference: Rows of the torch model on ``dev``.
        calibration: Texts for recipes that look at activations; the gate must not see them.
        recipes: Keys of the exporter's. Of those that pass, the fastest on one text of 32 tokens is
            kept; of those within 5 % of it, the one nearest to FP32.
        threads: Of the engine.
        min_engine: Oldest engine that runs the FP32 artifact, of which INT8 keeps the rest.
        precision: Of all the recipes, ``int8`` or ``int4``.

    Returns:
        What each recipe came to, and the artifact that was kept.
    """
    given = (bundle, exporter, dev, reference, calibration)
    maker = _Int8Maker(*given, threads, min_engine, precision)
    outcomes: dict[str, Int8Outcome] = {}
    trials: list[_Trial] = []
    for recipe in recipes:
        outcomes[recipe], trial = maker.attempt(recipe)
        if trial is not None:
            trials.append(trial)
    if not trials:
        maker.clear()
        return outcomes, None
    times = maker.times(trials)
    for recipe, latency_ms in times.items():
        outcomes[recipe] = replace(outcomes[recipe], latency_ms=latency_ms)
    return outcomes, maker.keep(trials, times)


class _Int8Maker:
    """Tries recipes for one engine, each in a folder of its own."""

    def __init__(
        self,
        bundle: Path,
        exporter: Exporter,
        dev: Probe,
        reference: FloatArray,
        calibration: Sequence[Batch],
        threads: int,
        min_engine: str,
        precision: str,
    ) -> None:
        self.bundle, self.exporter, self.dev = bundle, exporter, dev
        self.reference, self.calibration = reference, calibration
        self.threads, self.min_engine = threads, min_engine
        self.precision, self.path = precision, path_of(exporter, precision)
        self.folder = (bundle / self.path).parent / "trials"
        self.judged: dict[Path, tuple[Rows, bool]] = {}

    def attempt(self, recipe: str) -> tuple[Int8Outcome, _Trial | None]:
        """Make an artifact by a recipe; None for one that is refused."""
        path = self.folder / recipe / Path(self.path).name
        path.parent.mkdir(parents=True)
        source = self.bundle / self.exporter.fp32_path
        try:
            outcome = quantize_until_passed(
                Quantization(self.exporter, source, recipe, self.calibration),
                path,
                gate=self._gate_of(recipe),
                measure=self._measure,
            )
        except FAILURES as error:
            logger.warning("%s %s, %s: %s", self.exporter.backend, self.precision, recipe, error)
            refused = GateRecord(passed=False, limits={}, reasons=(str(error),))
            return Int8Outcome(refused, None, {}), None
        if outcome.converted is None:
            return outcome, None
        rows, invariant = self.judged.pop(path)
        return outcome, _Trial(recipe, path, outcome, rows, invariant)

    def times(self, trials: list[_Trial]) -> dict[str, float]:
        """Time the trials by turns, in milliseconds by recipe; only here all are open at once."""
        tokens, limit = self.dev.token_stream, int(self.dev.encoded.lengths.max())
        with ExitStack() as opened:
            backends = {
                one.recipe: opened.enter_context(closing(self._open(one.path))) for one in trials
            }
            return one_text_latency(backends, tokens=tokens, max_length=limit)

    def keep(self, trials: list[_Trial], times: dict[str, float]) -> OpenArtifact:
        """Put the best of the trials in its place, and remove the others."""
        best = _best(trials, times)
        for name in self.exporter.files(self.path):
            shutil.move(best.path.with_name(Path(name).name), self.bundle / name)
        self.clear()
        artifact = self._artifact(best, times)
        backend = self._open(self.bundle / self.path)
        return OpenArtifact(artifact, backend, best.outcome.gate, best.dev)

    def clear(self) -> None:
        """Remove what is left of the trials."""
        shutil.rmtree(self.folder)

    def _gate_of(self, recipe: str) -> Callable[[Path], GateRecord]:
        chosen = self.exporter.recipes[recipe]

        def gate(path: Path) -> GateRecord:
            with closing(self._open(path)) as backend:
                invariant = (
                    chosen.batch_invariant and mates_difference(backend, self.dev) <= BATCH_MATES
                )
                rows = engine_rows(backend, self.dev, batch_invariant=invariant)
            self.judged[path] = rows, invariant
            return int8_gate(self.dev, rows.values, self.reference, precision=self.precision)

        return gate

    def _measure(self, path: Path) -> float:
        """Give an artifact's error on a sample; see `relative_error`."""
        expected = sample_values(self.dev, self.reference, SENSITIVITY_TEXTS)
        sample = sample_probe(self.dev, SENSITIVITY_TEXTS)
        with closing(self._open(path)) as backend:
            rows = engine_rows(backend, sample, batch_invariant=False).values
        return relative_error(rows, expected)

    def _open(self, path: Path) -> Backend:
        return open_engine(self.exporter, path, self.threads)

    def _artifact(self, best: _Trial, times: dict[str, float]) -> Artifact:
        exporter, chosen = self.exporter, self.exporter.recipes[best.recipe]
        recipe: dict[str, object] = {"quantization": best.recipe, "about": chosen.about}
        if best.outcome.converted is not None:
            recipe |= best.outcome.converted.counts()
        recipe["kept_fp32"] = list(best.outcome.gate.kept_fp32)
        if best.outcome.gate.kept_int8:
            recipe["kept_int8"] = list(best.outcome.gate.kept_int8)
        if len(times) > 1:
            shown = {name: round(times[name], 3) for name in sorted(times, key=best.recipe.__ne__)}
            recipe["chosen_by_ms"] = shown
            logger.info(
                "%s %s: %s is chosen by its speed of %s ms",
                *(exporter.backend, self.precision, best.recipe, shown),
            )
        return Artifact(
            backend=exporter.backend,
            precision=self.precision,
            files=tuple(FileRecord.of(self.bundle, name) for name in exporter.files(self.path)),
            recipe=recipe,
            gated_on=cpu_name(),
            min_engine=oldest_for_all(exporter.backend, self.min_engine, chosen.min_engine),
            batch_invariant=best.batch_invariant,
            golden=(),
            tolerance=1.0,
        )


def _best(trials: Sequence[_Trial], times: dict[str, float]) -> _Trial:
    """Choose the one nearest to FP32 among those that none is clearly faster than."""
    limit = min(times.values()) / CLEARLY_FASTER
    fast = [one for one in trials if times[one.recipe] <= limit]
    return min(fast, key=lambda one: one.outcome.gate.numbers["error"])


def open_engine(exporter: Exporter, path: Path, threads: int) -> Backend:
    """Open an artifact on the engine that it is made for.

    Raises:
        BackendError: The engine can't.
    """
    return load_backend(exporter.backend, path, SessionOptions(threads=threads))
