"""The teachers beside the first: found and looked at before hours go into any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from compress.models.dense import dense_parts
from compress.models.labels import is_nameless
from compress.models.loading import load_teacher, load_tokenizer
from compress.models.pretrained import task_config
from compress.models.teachers import ResolvedTeacher, resolve_teacher
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.distillation.config import DistillConfig
    from compress.training.teacher_step import ReadyTeacher


def resolve_members(config: DistillConfig, first: ResolvedTeacher) -> list[ResolvedTeacher]:
    """Find the teachers beside the first.

    Raises:
        InputError: One is given twice.
        ModelError: One can't be had; none is replaced by another.
    """
    found = [resolve_teacher(name, no_fallback=True) for name in config.extra_teacher]
    seen = {first.path.resolve()}
    for one in found:
        if one.path.resolve() in seen:
            raise InputError(
                f"--extra-teacher {one.requested} is a teacher of this run already; name another."
            )
        seen.add(one.path.resolve())
    return found


def check_members(found: Sequence[ResolvedTeacher], data: TaskData, config: DistillConfig) -> None:
    """Load each teacher beside the first once, before hours go into any.

    Raises:
        ModelError: It can't be used, or its labels are not those of the data; both are named.
    """
    for one in found:
        try:
            _require_names(one, data, config)
            load_teacher(
                one.path, task=config.task, labels=data.labels, problem_type=data.problem_type
            )
            load_tokenizer(one.path, config.max_length)
        except (ModelError, InputError) as error:
            kind = ModelError if isinstance(error, ModelError) else InputError
            raise kind(f"--extra-teacher {one.requested}: {error}") from error


def _require_names(found: ResolvedTeacher, data: TaskData, config: DistillConfig) -> None:
    if config.task != "text-classification":
        return
    theirs: Any = task_config(found.path, config.task)
    names = [str(name) for name in theirs.id2label.values()]
    headless = not any("ForSequenceClassification" in one for one in theirs.architectures or ())
    if not headless and is_nameless(names) and set(names) != set(data.labels):
        raise ModelError(
            f"Its labels have no names ({', '.join(names)}), so they can't be matched with the "
            f"data's ({', '.join(data.labels)}). Write them into id2label of its config.json; "
            "--teacher-labels is of --teacher alone."
        )


def require_like_vectors(
    found: ResolvedTeacher, teacher: ReadyTeacher, first: ReadyTeacher
) -> None:
    """Raise a `ModelError` where one embedder's vectors can't stand for another's."""
    kinds = [
        f"pooling {head.pooling} of {head.pooling_layers} layers, {len(dense_parts(head.dense))} "
        f"Dense modules, {one.model.config.hidden_size} numbers"
        for one in (teacher, first)
        if (head := one.encoded.dev.head).pooling
    ]
    if len(set(kinds)) > 1:
        raise ModelError(
            f"--extra-teacher {found.requested} makes its vectors otherwise than --teacher: "
            f"{kinds[0]}, not {kinds[1]}. Name one that makes them alike."
        )
