"""The teacher that a report measures a model against: the first one of its lineage."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.bundles.lineage import weights_hash
from compress.bundles.reports import architecture, count_params
from compress.models.loading import load_teacher, load_tokenizer, special_token_ids
from compress.models.sentence_layout import read_layout
from compress.models.task_head import TaskHead
from compress.reporting.records import TeacherRecord
from compress.scoring.predictions import calibrate_no_answer
from compress.scoring.probe import make_probe, torch_rows
from compress.scoring.scores import SELF_METRICS, Score, score_rows
from edgebert.errors import EdgeBertError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.data.task_data import Split, TaskData

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MeasuredTeacher:
    """A teacher with its scores in torch FP32.

    Attributes:
        requested: As it was asked for.
        used: What was taken.
        model: On the CPU.
        head: What its outputs mean.
        final: On the report's split.
        dev: On dev.
        note: Why ``used`` is not ``requested``, or "".
    """

    requested: str
    used: str
    model: PreTrainedModel
    head: TaskHead
    final: Score
    dev: Score
    note: str = ""

    def record(self, metric: str) -> TeacherRecord:
        """Write it for a report whose scores are of ``metric``."""
        # closeness of an artifact to its own torch model says nothing of the teacher
        comparable = self.final.metric == metric and metric not in SELF_METRICS
        return TeacherRecord(
            requested=self.requested,
            used=self.used,
            note=self.note,
            params=count_params(self.model, self.head),
            score=self.final.value if comparable else None,
            interval=self.final.interval if comparable else None,
            dev_score=self.dev.value if comparable and self.dev.metric == metric else None,
            per_class=self.final.per_class,
            architecture=architecture(self.model.config),
        )


def first_teacher(
    lineage: Sequence[Mapping[str, Any]],
    data: TaskData,
    head: TaskHead,
    *,
    given: Path,
    max_length: int,
    stride: int | None = None,
) -> tuple[MeasuredTeacher | None, str]:
    """Load and measure the first model of a lineage that has a head for the task.

    Args:
        lineage: Of the model that was given, oldest step first.
        data: What the report's scores are of.
        head: Of the model that was given.
        given: Its directory.
        max_length: Of the report, in tokens.
        stride: As for `make_probe`.

    Returns:
        The teacher, and "". None where the model that was given is the first one itself, or where
        the first one isn't there any more, with a note that says so.
    """
    for step in lineage:
        place = step.get("baseline") or {}
        directory = Path(place.get("directory", ""))
        if not place or directory == given.absolute():
            continue
        if not directory.is_dir() or weights_hash(directory) != place["weights_sha256"]:
            note = f"The first teacher, {directory}, isn't there any more or has changed"
            return None, f"{note}; what is compared is what {given} was before this step."
        try:
            loaded = load_teacher(
                directory, task=head.task, labels=data.labels, problem_type=data.problem_type
            )
        except EdgeBertError as error:  # another task's labels, a family that isn't known here
            logger.info("%s is not the teacher of the comparison: %s", directory, error)
            continue
        if not loaded.has_head:
            continue
        logger.info("Comparing with the first teacher of the lineage, %s.", directory)
        return _measured(directory, loaded.model, data, head, max_length, stride), ""
    return None, ""


def _measured(
    directory: Path,
    model: PreTrainedModel,
    data: TaskData,
    head: TaskHead,
    max_length: int,
    stride: int | None,
) -> MeasuredTeacher:
    head = replace(head, dense=None, exits=None)
    if head.task == "feature-extraction" and (layout := read_layout(directory)) is not None:
        head = replace(
            head,
            pooling=layout.pooling,
            pooling_layers=layout.pooling_layers,
            normalize=layout.normalize,
            dense=layout.dense,
        )
    tokenizer = load_tokenizer(directory, max_length)
    mask_id = special_token_ids(directory, directory).get("mask_token_id")

    def scored(split: Split, threshold: float | None = None) -> tuple[Score, float | None]:
        probe = make_probe(
            split, head, tokenizer, max_length=max_length, stride=stride, mask_id=mask_id
        )
        values = torch_rows(model, probe).values
        if threshold is None:
            threshold = calibrate_no_answer(probe, values)
        probe = replace(probe, no_answer_threshold=threshold)
        return score_rows(probe, values, values), threshold

    dev, threshold = scored(data.dev)
    test = data.test
    if test is None or (test.labels is None and head.task != "fill-mask"):
        final = dev  # as in `compress.bundles.export`
    else:
        final = scored(test, threshold)[0]
    name = str(directory)
    return MeasuredTeacher(name, name, model, head, final, dev)
