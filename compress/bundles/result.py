"""What an export gives back: the bundle's manifest and all that was measured of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from compress.artifacts.timing import QUIET_SHARE
from compress.reporting.exit_records import ExitRecord
from compress.reporting.records import ArtifactRow, CandidateRecord, Latency
from compress.scoring.predictions import calibrate_no_answer
from compress.scoring.probe import Probe, Rows, torch_rows
from compress.scoring.scores import Score, score_rows
from edgebert.formats.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The bundle's own model in torch FP32: what its artifacts are measured against.

    Attributes:
        dev: Rows of dev.
        dev_score: On dev.
        final: Rows of the split that scores are reported on.
        score: On that split.
    """

    dev: Rows
    dev_score: Score
    final: Rows
    score: Score


def measure_reference(model: nn.Module, dev: Probe, final: Probe) -> tuple[Reference, Probe, Probe]:
    """Run and score a model in torch on dev and on the split that is reported.

    Args:
        model: In torch FP32.
        dev: Of the gates.
        final: What scores are reported on; may be ``dev`` itself.

    Returns:
        What was found, and both splits with the threshold of dev, where questions have none.
    """
    rows, is_dev = torch_rows(model, dev), final is dev
    threshold = calibrate_no_answer(dev, rows.values)  # None for all but some questions
    dev = replace(dev, no_answer_threshold=threshold)
    final = dev if is_dev else replace(final, no_answer_threshold=threshold)
    final_rows = rows if is_dev else torch_rows(model, final)
    reference = Reference(
        dev=rows,
        dev_score=score_rows(dev, rows.values, rows.values),
        final=final_rows,
        score=score_rows(final, final_rows.values, final_rows.values),
    )
    return reference, dev, final


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """A bundle as written.

    Attributes:
        output_dir: Of the bundle.
        manifest: Its ``edgebert.json``.
        rows: Artifacts in the bundle, FP32 first, measured.
        refused: Artifacts that their gate kept out, with the reasons.
        measured: Examples that scores and gates looked at, by split; fill-mask looks at a part.
        missing: By backend, why nothing was made for it: it isn't installed.
        split: ``test`` if given, else ``dev``: what ``rows`` and ``reference.score`` are of.
        reference: The same model in torch.
        torch_latency_ms: Of the teacher in torch FP32 at equal threads, in turn with the artifacts.
        torch_texts_per_s: Of the teacher in torch FP32; None where it has another vocabulary. See
            `compress.reporting.records.TeacherRecord` for the batches.
        threads: Of torch and of the engines.
        core_share: Part of a core that each thread got around the timing; 1 on a quiet machine.
        seconds: Wall time by step.
        candidates: Every way to INT8 that was tried, by engine.
        exits: The model in segments, by engine; empty for one without exits.
    """

    output_dir: Path
    manifest: Manifest
    rows: tuple[ArtifactRow, ...]
    refused: tuple[ArtifactRow, ...]
    split: str
    reference: Reference
    torch_latency_ms: dict[str, Latency]
    torch_texts_per_s: float | None
    threads: int
    core_share: float
    seconds: dict[str, float]
    measured: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    candidates: tuple[CandidateRecord, ...] = ()
    exits: tuple[ExitRecord, ...] = ()

    @property
    def metric(self) -> str:
        """Name of the score."""
        return self.reference.score.metric

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        notes = [
            f"{backend}: no artifact was made; it {why}" for backend, why in self.missing.items()
        ]
        if self.core_share < QUIET_SHARE:
            notes.append(
                f"the machine was busy while latency was measured (each thread got "
                f"{self.core_share:.0%} of a core), so times and speed-ups can't be trusted; "
                "measure again on a quiet one"
            )
        return tuple(notes)
