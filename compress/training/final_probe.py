"""The test split as the teacher of a run is scored on it, once, at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from compress.scoring.predictions import calibrate_no_answer
from compress.scoring.probe import Probe, make_probe, torch_rows
from edgebert.types import FloatArray

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.settings import TrainingConfig
    from compress.training.teacher_step import ReadyTeacher


def final_probe(
    teacher: ReadyTeacher,
    data: TaskData,
    config: TrainingConfig,
    *,
    dev_values: FloatArray | None = None,
) -> Probe | None:
    """Encode test; what is chosen, the threshold on "no answer", is chosen on dev.

    Args:
        teacher: Ready to answer.
        data: Of the run.
        config: Of the run.
        dev_values: The teacher's rows of dev, where they are there already.

    Returns:
        None where there is no test split that can be scored.
    """
    dev = teacher.encoded.dev
    if data.test is None or (data.test.labels is None and dev.masked is None):
        return None
    probe = make_probe(
        data.test,
        dev.head,
        teacher.tokenizer,
        max_length=config.max_length,
        stride=config.doc_stride,
        mask_id=teacher.special_ids.get("mask_token_id"),
    )
    if not dev.head.no_answer:
        return probe
    if dev_values is None:
        dev_values = torch_rows(teacher.model, dev).values
    return replace(probe, no_answer_threshold=calibrate_no_answer(dev, dev_values))
