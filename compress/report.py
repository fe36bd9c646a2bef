"""``report.json``: what a run measured, in plain dataclasses that are checked when written.

Derived values (``size_bytes`` of the teacher, ``retention``, ``speedup_vs_teacher``) are computed
here and nowhere else. ``python -m compress.report BUNDLE`` draws ``report.html`` again.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compress.options import StepModule, option, parse_config
from compress.reporting.exit_records import ExitRecord as ExitRecord
from compress.reporting.html import render_html
from compress.reporting.reading import read_record
from compress.reporting.records import SPEED_KEY
from compress.reporting.records import ArtifactRow as ArtifactRow
from compress.reporting.records import CandidateRecord as CandidateRecord
from compress.reporting.records import ClassRecord as ClassRecord
from compress.reporting.records import GateRecord as GateRecord
from compress.reporting.records import Latency as Latency
from compress.reporting.records import Parity as Parity
from compress.reporting.records import PhaseRecord as PhaseRecord
from compress.reporting.records import SplitRecord as SplitRecord
from compress.reporting.records import StudentRecord as StudentRecord
from compress.reporting.records import TeacherRecord as TeacherRecord
from compress.reporting.table import format_table
from edgebert.errors import BundleError, InputError
from edgebert.files import write_json, write_text
from edgebert.shell import EXIT_DONE, configure_logging, run_command

logger = logging.getLogger(__name__)

REPORT_NAME = "report.json"
PAGE_NAME = "report.html"
REPORT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that ``report.json`` and ``report.html`` say.

    Attributes:
        title: Name of the bundle.
        task: ``text-classification``, …
        metric: Name of the score, like ``accuracy``.
        split: The scores' split: ``test`` if given, else ``dev``.
        data: By split name.
        rows: Artifacts in the bundle.
        refused: Artifacts that a gate kept out of it.
        candidates: Every way to INT8 that was tried, by engine.
        exits: The model in segments, whose texts may leave early, by engine.
        machine: From `edgebert.cpu.machine`; equal ``threads`` for teacher and artifacts.
        seconds: Wall time by step.
        phases: Loss curves, in order.
        lineage: The manifest's, oldest first.
        notes: Sentences that a reader must see, such as a fallback.
        command: That makes the run again.
        versions: Of the packages that had a hand in it.
        created: ISO 8601 time.
    """

    title: str
    task: str
    metric: str
    split: str
    teacher: TeacherRecord
    student: StudentRecord
    data: dict[str, SplitRecord]
    rows: tuple[ArtifactRow, ...]
    machine: dict[str, Any]  # what `edgebert.cpu.machine` finds out differs by system
    seconds: dict[str, float]
    refused: tuple[ArtifactRow, ...] = ()
    candidates: tuple[CandidateRecord, ...] = ()
    exits: tuple[ExitRecord, ...] = ()
    phases: tuple[PhaseRecord, ...] = ()
    lineage: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    created: str = ""

    @property
    def passed(self) -> bool:
        """Whether no gate refused anything."""
        gates = [*(row.gate for row in self.rows), *(one.gate for one in self.exits)]
        return not self.refused and all(gate.passed for gate in gates)

    def retention(self, row: ArtifactRow) -> float | None:
        """Score as a fraction of the teacher's, or None where one is missing or not above 0."""
        if row.score is None or self.teacher.score is None or self.teacher.score <= 0:
            return None
        return row.score / self.teacher.score

    def speedup(self, row: ArtifactRow) -> float | None:
        """How many times faster than the teacher on one text of 32 tokens (medians)."""
        ours, theirs = row.latency_ms.get(SPEED_KEY), self.teacher.latency_ms.get(SPEED_KEY)
        return theirs.p50 / ours.p50 if ours and theirs else None

    def to_json(self) -> dict[str, Any]:
        """Give what ``report.json`` holds: the fields and the values derived from them.

        Raises:
            InputError: A number is NaN or infinite; the message has its place in the file.
        """
        data: dict[str, Any] = {"report_version": REPORT_VERSION, **asdict(self)}
        data["teacher"]["size_bytes"] = self.teacher.size_bytes
        for name in ("rows", "refused"):
            for row, values in zip(getattr(self, name), data[name], strict=True):
                values["retention"] = self.retention(row)
                values["speedup_vs_teacher"] = self.speedup(row)
        first = next((row.gate for row in (*self.refused, *self.rows)), None)
        data["gate"] = {
            "passed": self.passed,
            "split": first.split if first else "dev",
            "limits": {f"{row.backend}/{row.precision}": row.gate.limits for row in self._all()},
        }
        for where, number in _numbers(data, ""):
            if not math.isfinite(number):
                raise InputError(f"{REPORT_NAME}: {where} is {number}; measure it or leave it out.")
        return data

    def _all(self) -> tuple[ArtifactRow, ...]:
        return (*self.rows, *self.refused)


def _numbers(value: Any, where: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield where, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _numbers(item, f"{where}.{name}" if where else str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{where}[{index}]")


def load_report(bundle: Path) -> Report:
    """Read a bundle's ``report.json``.

    Raises:
        BundleError: It is missing, not JSON, of a newer version, or a field is not as it must be.
    """
    source = bundle / REPORT_NAME
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BundleError(
            f"{bundle} has no {REPORT_NAME}; `python -m compress.export` and "
            "`python -m compress.distill` write one."
        ) from error
    except (ValueError, OSError, RecursionError) as error:
        raise BundleError(f"{source} can't be read as JSON ({error}).") from error
    version = data.get("report_version") if isinstance(data, dict) else None
    if version != REPORT_VERSION:
        raise BundleError(
            f"{source} has report_version {version!r}; this edgebert reads {REPORT_VERSION}. "
            "Install the edgebert that wrote it, or make the bundle again."
        )
    try:
        return read_record(Report, data, where="")
    except ValueError as error:
        raise BundleError(f"{source}: {error}.") from error


def write_report(report: Report, directory: Path) -> None:
    """Write ``report.json`` and ``report.html``, each whole.

    Raises:
        InputError: A number is NaN or infinite; nothing is written.
    """
    data = report.to_json()
    write_json(directory / REPORT_NAME, data)
    write_page(report, directory)


def write_page(report: Report, directory: Path) -> None:
    """Write ``report.html`` alone."""
    write_text(directory / PAGE_NAME, render_html(report))


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Draw a bundle's report.html again from its report.json, and print the table."""

    model: Path = option(help="Bundle with a report.json; the word --model may be left out")


def report(config: ReportConfig) -> Report:
    """Write ``report.html`` of a bundle from its ``report.json``, and give what that says."""
    found = load_report(config.model)
    write_page(found, config.model)
    logger.info("Wrote %s", config.model / PAGE_NAME)
    return found


def main(argv: Sequence[str]) -> int:
    """Run ``python -m compress.report BUNDLE``."""
    configure_logging()
    words = ["--model", *argv] if argv and not argv[0].startswith("-") else argv
    config = parse_config(ReportConfig, words, prog="python -m compress.report")

    def action() -> int:
        print(format_table(report(config)))
        return EXIT_DONE

    return run_command(action)


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
