"""A quantized artifact that passes its gate: the parts that hurt most are left out.

Parts are measured, not guessed: each is quantized alone, and the output's error says how much it
hurts. They stay in FP32, of INT4 in INT8, one after another, worst first, until the gate passes.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from compress.artifacts.quantizer import Converted, Exporter
from compress.artifacts.quantizer import part_name as part_name
from compress.reporting.records import GateRecord
from edgebert.errors import GateError
from edgebert.types import Batch

logger = logging.getLogger(__name__)

# A trial of BERT base takes 2 s on ONNX and up to 20 s with a calibration; it has 38 parts.
SEARCH_SECONDS = 180.0

Parts = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Int8Outcome:
    """An INT8 artifact, or why there is none.

    Attributes:
        gate: The last word of the gate; ``kept_fp32``, or ``kept_int8``, names the parts left out.
        converted: What the recipe converted; None when no artifact was made.
        error_by_part: Output error of each part when it alone is INT8; empty when not needed.
        tried: What the last artifact had converted that the gate saw, refused or not.
        latency_ms: Of one text of 32 tokens, once it was measured.
    """

    gate: GateRecord
    converted: Converted | None
    error_by_part: dict[str, float]
    tried: Converted | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, eq=False)
class Quantization:
    """One recipe on one FP32 artifact.

    Attributes:
        exporter: Of the engine.
        source: Main file of the FP32 artifact.
        recipe: A key of the exporter's ``recipes``.
        calibration: Real texts of dev.
    """

    exporter: Exporter
    source: Path
    recipe: str
    calibration: Sequence[Batch] = field(default=())

    @property
    def precision(self) -> str:
        """Of what it makes: ``int8`` or ``int4``."""
        return self.exporter.recipes[self.recipe].precision

    @property
    def rest(self) -> str:
        """Precision of what is left out."""
        return "int8" if self.precision == "int4" else "fp32"

    def files(self, main: Path) -> list[Path]:
        """List an artifact's files by its main one."""
        return [main.with_name(name) for name in self.exporter.files(main.name)]

    def remove(self, main: Path) -> None:
        """Remove an artifact, if it is there."""
        for file in self.files(main):
            file.unlink(missing_ok=True)

    def convert(self, target: Path, *, exclude: Collection[str] = ()) -> Converted:
        """Write the quantized form and refuse nothing: for measuring parts of a model."""
        return self.exporter.quantize(
            self.source,
            target,
            recipe=self.recipe,
            exclude=exclude,
            calibration=self.calibration,
        )

    def convert_all(self, target: Path, *, exclude: Collection[str] = ()) -> Converted:
        """Write the quantized form, whole.

        Args:
            target: Main file; removed again when it is refused.
            exclude: Names out of the exporter's parts that are left out.

        Raises:
            GateError: Not every weight was converted, or the artifact is no smaller than FP32.
        """
        converted = self.convert(target, exclude=exclude)
        before = sum(file.stat().st_size for file in self.files(self.source))
        expected = converted.matmuls_total + converted.gathers_total - len(set(exclude))
        reason = None
        if converted.missed:
            reason = (
                f"converted {len(converted.names)} of {expected} weights; "
                f"not in {self.precision.upper()}: {', '.join(converted.missed[:5])}"
            )
        elif converted.size_bytes >= before:
            reason = f"made {converted.size_bytes} bytes out of {before}"
        if reason is not None:
            self.remove(target)
            raise GateError(
                f"{self.precision.upper()} recipe {self.recipe!r} {reason}. Try another --recipe, "
                "or ship FP32 only."
            )
        return converted


def rank_parts(
    quantization: Quantization, parts: Parts, scratch: Path, *, measure: Callable[[Path], float]
) -> dict[str, float]:
    """Measure the output's error with one part quantized at a time, worst part first.

    Args:
        quantization: What to try.
        parts: Names of weights by part.
        scratch: Main file of the trials; removed again.
        measure: Gives the error of an artifact's output; higher is worse.
    """
    every = {name for names in parts.values() for name in names}
    errors = {}
    try:
        for part, names in parts.items():
            quantization.convert(scratch, exclude=every - set(names))
            errors[part] = measure(scratch)
            precision = quantization.precision
            logger.info("%s of %s alone: output error %.3g", precision, part, errors[part])
    finally:
        quantization.remove(scratch)
    return dict(sorted(errors.items(), key=lambda entry: -entry[1]))


def quantize_until_passed(
    quantization: Quantization,
    target: Path,
    *,
    gate: Callable[[Path], GateRecord],
    measure: Callable[[Path], float],
    seconds: float = SEARCH_SECONDS,
) -> Int8Outcome:
    """Write an INT8 or INT4 artifact that passes its gate, or none.

    Args:
        quantization: What to try.
        target: Main file of the artifact; absent afterwards when refused.
        gate: Judges an artifact.
        measure: Gives the error of an artifact's output, for the order of the parts.
        seconds: What the search for the parts at fault may take. Where a trial is slow, like parts
            of all layers are tried together.
    """
    start = time.monotonic()
    try:
        converted = quantization.convert_all(target)
    except GateError as error:
        return Int8Outcome(GateRecord(passed=False, limits={}, reasons=(str(error),)), None, {})
    if quantization.precision == "int4":  # rounding takes most of the time, and is done once
        start = time.monotonic()
    record = gate(target)
    if record.passed:
        return Int8Outcome(record, converted, {}, tried=converted)
    logger.warning(
        "%s refused: %s Looking for the parts at fault.",
        *(quantization.precision, " ".join(record.reasons)),
    )
    trial_seconds = time.monotonic() - start
    parts = quantization.exporter.parts(quantization.source)
    if 2 * len(parts) * trial_seconds > seconds:
        parts = together(parts)
    scratch = target.with_name(f"{target.stem}_trial{target.suffix}")
    errors = rank_parts(quantization, parts, scratch, measure=measure)
    outcome = Int8Outcome(record, None, errors, tried=converted)
    for kept in _growing(tuple(errors)):
        if time.monotonic() - start + trial_seconds > seconds:
            late = f"The search for the parts at fault was stopped after {seconds:.0f} s."
            outcome = replace(outcome, gate=_with_reason(outcome.gate, late))
            break
        outcome = _try_without(quantization, target, parts, kept, outcome, gate=gate)
        if outcome.converted is not None:
            return outcome
    quantization.remove(target)
    return outcome


def _try_without(
    quantization: Quantization,
    target: Path,
    parts: Parts,
    kept: tuple[str, ...],
    before: Int8Outcome,
    *,
    gate: Callable[[Path], GateRecord],
) -> Int8Outcome:
    exclude = [name for part in kept for name in parts[part]]
    try:
        converted = quantization.convert_all(target, exclude=exclude)
    except GateError as error:
        return replace(before, gate=_with_reason(before.gate, str(error)))
    record = gate(target)
    if quantization.rest == "int8":
        record = replace(record, kept_int8=kept)
    else:
        record = replace(record, kept_fp32=kept)
    logger.info(
        "%s with %s in %s: %s",
        *(quantization.precision, ", ".join(kept), quantization.rest.upper(), verdict(record)),
    )
    kept_in = converted if record.passed else None
    return replace(before, gate=record, converted=kept_in, tried=converted)


def together(parts: Parts) -> Parts:
    """Put like parts of all layers together: ``layer.0/ffn-down``, … become ``ffn-down``."""
    found: dict[str, list[str]] = defaultdict(list)
    for part, names in parts.items():
        found[part.rpartition("/")[2]].extend(names)
    return {part: tuple(names) for part, names in found.items()}


def _growing(ranked: tuple[str, ...]) -> list[tuple[str, ...]]:
    """List which parts are left out: one more each time, by a quarter more once there are many."""
    steps, count = [], 0
    while (count := count + max(1, count // 4)) < len(ranked):
        steps.append(ranked[:count])
    return steps


def _with_reason(record: GateRecord, reason: str) -> GateRecord:
    return replace(record, reasons=tuple(dict.fromkeys((*record.reasons, reason))))


def verdict(record: GateRecord) -> str:
    """Say in one line what a gate decided."""
    return "passed" if record.passed else "refused: " + " ".join(record.reasons)
