"""Thin a training history to curves that a report can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from compress.reporting.records import PhaseRecord

MAX_POINTS = 120  # more can't be told apart in a plot of this width
_NO_TERMS = {"step", "epoch", "lr", "grad_norm", "seconds"}


def phase_record(
    name: str,
    history: Sequence[Mapping[str, float]],
    evals: Sequence[Mapping[str, float]] = (),
    *,
    metric: str = "",
    best_step: int | None = None,
    note: str = "",
) -> PhaseRecord:
    """Make a phase's record from what the loop noted.

    Neighbouring steps are averaged: a thinned curve must not depend on which steps are kept.

    Args:
        name: Of the phase.
        history: One entry a step, as `compress.training.loop` notes it: ``step``, ``loss`` and its
            terms by name. A ``loss`` of a single term is left out, as are the rate and the
            gradient's norm.
        evals: One entry a measurement: ``step`` and the metrics by name.
        metric: Which of ``evals`` is the score; none is drawn where it is absent.
        best_step: Whose weights were kept.
        note: One sentence for the reader.
    """
    names = [key for key in (history[0] if history else ()) if key not in _NO_TERMS]
    if len(names) == 2 and "loss" in names:
        names.remove("loss")
    size = max(1, -(-len(history) // MAX_POINTS))  # steps a point, rounded up
    groups = [history[start : start + size] for start in range(0, len(history), size)]
    return PhaseRecord(
        name=name,
        steps=tuple(int(group[-1]["step"]) for group in groups),
        terms={key: tuple(fmean(row[key] for row in group) for group in groups) for key in names},
        scores=tuple((int(row["step"]), float(row[metric])) for row in evals if metric in row),
        best_step=best_step,
        note=note,
        metric=metric,
    )
