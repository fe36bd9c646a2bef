"""Students trained to the end become artifacts, which are measured beside each other."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from compress.artifacts.exporters import get_exporter, plan_export
from compress.artifacts.make import open_engine
from compress.artifacts.quietest import quietest_latency
from compress.artifacts.timing import QUIET_SHARE
from compress.bundles.export import export_bundle
from compress.distillation.config import DistillConfig
from compress.distillation.imitate import Imitation
from compress.scoring.scores import SELF_METRICS
from compress.searching.budget import Cost
from compress.searching.clock import Clock
from compress.searching.grounds import Grounds, at_chance, best_kept
from compress.searching.records import Finalist, Tried
from edgebert.errors import GateError
from edgebert.files import write_json

logger = logging.getLogger(__name__)

FOLDER = "bundles"
REPEATS = 60  # of each artifact; the ratio of two medians is then within 2 % on a quiet machine

Trained = tuple[Tried, Imitation, DistillConfig]


def measure_finalists(
    grounds: Grounds, trained: Mapping[int, Trained], clock: Clock
) -> tuple[tuple[Finalist, ...], list[str]]:
    """Export each student, gate it, and time all artifacts by turns.

    The most promising one is exported in any case, the others as long as there is time for one more
    and for the chosen one.

    Args:
        grounds: What the search stands on.
        trained: Of `compress.searching.finals.Finals`.
        clock: Of the search.

    Returns:
        The artifacts that passed their gates, and what a reader must know of them.
    """
    notes: list[str] = []
    found: list[tuple[Path, dict[str, Any]]] = []
    longest_s = 0.0
    able = []
    for number in promising_first(grounds, trained):
        if reason := at_chance(grounds, trained[number][1]):
            notes.append(f"trial {number} was not taken: {reason}")
        else:
            able.append(number)
    for done, number in enumerate(able):
        if done and clock.left_s() < 2 * longest_s:
            notes.append(f"time was too short to export more than {done} students")
            break
        before = clock.spent_s
        found += _exported(grounds, number, trained[number], notes)
        longest_s = max(longest_s, clock.spent_s - before)
        clock.save()
    if not found:
        return (), notes
    times = _times(grounds, found, notes)
    finalists = []
    for _, record in found:
        cost = Cost(size_bytes=record.pop("size_bytes"), latency_ms=times[record["name"]])
        finalists.append(Finalist(**record, cost=cost))
    return tuple(finalists), notes


def promising_first(grounds: Grounds, trained: Mapping[int, Trained]) -> list[int]:
    """Order students before their export: those that may do, the cheapest of them first."""

    def rank(number: int) -> tuple[bool, float, float]:
        tried, imitation, _ = trained[number]
        kept, budget = best_kept(grounds, imitation), grounds.budget
        paid = 0.0 if tried.cost is None else budget.paid(tried.cost)
        return kept < budget.least_kept, paid, -kept

    return sorted(trained, key=rank)


def _exported(
    grounds: Grounds, number: int, one: Trained, notes: list[str]
) -> list[tuple[Path, dict[str, Any]]]:
    """Write a student's artifacts, unless a killed run has: folder and facts of each."""
    folder = grounds.work / FOLDER / f"{number:04d}"
    listed = folder.with_suffix(".json")
    if not listed.is_file():
        try:
            records = _export(grounds, number, one, folder)
        except GateError as error:
            records = []
            logger.warning("trial %d: %s", number, error)
        write_json(listed, records)
    records = json.loads(listed.read_text(encoding="utf-8"))
    if not records:
        notes.append(f"trial {number} has no artifact that passed its gate")
    return [(folder, record) for record in records]


def _export(grounds: Grounds, number: int, one: Trained, folder: Path) -> list[dict[str, Any]]:
    tried, imitation, config = one
    teacher = grounds.vocabularies.ready(tried.vocab_size)
    result = export_bundle(
        imitation.built.model,
        teacher.tokenizer_dir,
        output_dir=folder,
        head=imitation.head,
        data=grounds.data,
        max_length=config.max_length,
        stride=config.doc_stride,
        prompts=teacher.prompts,
        plan=plan_export(config.backend, config.recipe),
    )
    own = result.metric in SELF_METRICS or result.metric not in grounds.vocabularies.whole.dev
    return [
        {
            "name": f"{number} {row.precision}",
            "number": number,
            "student": tried.student,
            "vocab_size": tried.vocab_size,
            "precision": row.precision,
            "recipe": row.recipe,
            "score": None if own else row.score,
            "kept": best_kept(grounds, imitation)
            if own or row.score is None
            else grounds.kept(row.score, result.metric),
            "path": row.path,
            "size_bytes": row.size_bytes,
        }
        for row in result.rows
    ]


def _times(
    grounds: Grounds, found: list[tuple[Path, dict[str, Any]]], notes: list[str]
) -> dict[str, float]:
    """Time one text by turns on all artifacts: median milliseconds by name."""
    exporter, threads = get_exporter(grounds.config.engine), torch.get_num_threads()
    smallest = min(int(record["vocab_size"]) for _, record in found)
    tokens = np.minimum(grounds.vocabularies.whole.encoded.dev.token_stream, smallest - 1)
    with ExitStack() as opened:
        backends = {}
        for folder, record in found:
            backend = open_engine(exporter, folder / record["path"], threads)
            opened.callback(backend.close)
            backends[record["name"]] = backend
        times, share = quietest_latency(
            backends,
            tokens=tokens,
            max_length=grounds.config.max_length,
            threads=threads,
            repeats=REPEATS,
        )
    if share < QUIET_SHARE:
        notes.append(
            f"the machine was busy while the finalists were timed (each thread got {share:.0%} of "
            "a core), so their times are too long; measure again on a quiet one"
        )
    return {name: round(value, 4) for name, value in times.items()}
