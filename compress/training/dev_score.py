"""The score by which a training picks its weights, for every task and any model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import nn

from compress.models.task_head import TaskHead
from compress.scoring.collapse import COLLAPSED_COSINE, collapse_check
from compress.scoring.metrics import METRICS, pearson
from compress.scoring.predictions import calibrated
from compress.scoring.probe import Probe, torch_rows
from compress.scoring.scores import evaluate_rows, task_metric
from edgebert.errors import InputError
from edgebert.types import FloatArray

COMPARED_TEXTS = 1000

# What may pick the weights beside a task's own metric.
OTHER_METRICS = {
    "text-classification": ("macro_f1", "accuracy"),
    "regression": ("pearson",),
    "token-classification": ("accuracy",),
    "question-answering": ("exact_match",),
}


class DevScore:
    """Scores models that share a tokenizer on one split.

    Labels give the metrics of their task, see `compress.scoring.scores.evaluate_rows`. Plain texts
    give ``pearson``: the correlation of all cosines among up to 1,000 texts with the teacher's,
    which stands for students of any width.

    Args:
        probe: The split.
        metric: Which one picks the weights; None for the task's own.
        teacher: Needed for ``pearson``; also says how alike the vectors of these texts may be.
        teacher_head: Of the teacher, where its outputs mean something else than the probe's head
            says: a student has Dense modules of its own.

    Raises:
        InputError: The metric is not among those that this split gives.
    """

    def __init__(
        self,
        probe: Probe,
        *,
        metric: str | None = None,
        teacher: nn.Module | None = None,
        teacher_head: TaskHead | None = None,
    ) -> None:
        self.probe = probe
        self._teacher = teacher
        self._theirs = replace(probe, head=teacher_head or probe.head)
        self._reference: FloatArray | None = None
        if probe.head.task == "feature-extraction" and probe.split.labels is None:
            own, known = "pearson", ["pearson"]
            if teacher is not None:
                self._reference = torch_rows(teacher, self._theirs).values
        else:
            own = task_metric(probe.head)
            known = [own, *OTHER_METRICS.get(probe.head.task, ())]
            if own == "accuracy" and probe.head.task == "text-classification":
                known.append("mcc")
        self.metric = metric or own
        if self.metric not in known:
            raise InputError(
                f"metric_for_best_model {self.metric!r} can't be had here; use one of "
                f"{', '.join(sorted(set(known)))}."
            )
        self.greater_is_better = METRICS[self.metric]

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """Measure a model.

        Raises:
            ModelError: All its vectors point the same way.
        """
        values = torch_rows(model, self.probe).values
        if self.probe.head.task == "feature-extraction":
            self._refuse_collapse(values)
            if self._reference is not None:
                return {"pearson": pearson(_cosines(values), _cosines(self._reference))}
        found = evaluate_rows(calibrated(self.probe, values), values)
        return {name: found[name] for name in METRICS if name in found}

    def _refuse_collapse(self, values: FloatArray) -> None:
        """Allow vectors that are alike because the texts are: half way from the teacher's to 1."""
        limit = COLLAPSED_COSINE
        if self._teacher is not None and collapse_check(values, limit=np.inf) > limit:
            own = collapse_check(torch_rows(self._teacher, self._theirs).values, limit=np.inf)
            limit = max(limit, (1 + own) / 2 + 1e-6)  # rounding can give 1.0000001
        collapse_check(values, limit=limit)

    def of(self, model: nn.Module) -> Callable[[], dict[str, float]]:
        """Bind a model: what a training loop calls."""
        return lambda: self(model)


def _cosines(vectors: FloatArray) -> FloatArray:
    """Give the cosine of every two of the first texts once, float32 ``[pairs]``."""
    first = vectors[:COMPARED_TEXTS]
    units = first / np.linalg.norm(first, axis=1, keepdims=True)
    return np.asarray((units @ units.T)[np.triu_indices(len(first), k=1)], dtype=np.float32)
