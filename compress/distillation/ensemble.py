"""Several teachers that answer as one: each is asked in its own tokens, once."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import logging
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from compress.data.encoding import RowArray
from compress.distillation.augmentation import with_augmented
from compress.distillation.average import average_answers
from compress.distillation.teacher_cache import TeacherCache
from compress.models.capture import Wanted
from compress.models.labels import is_nameless
from compress.models.loading import load_teacher, load_tokenizer
from compress.models.pretrained import task_config
from compress.models.teachers import ResolvedTeacher, resolve_teacher
from compress.reporting.records import EnsembleRecord, MemberRecord, PhaseRecord
from compress.scoring.probe import torch_rows
from compress.scoring.scores import evaluate_rows
from compress.training.checkpoint import weights_sha256
from compress.training.dev_score import DevScore
from compress.training.teacher_step import ReadyTeacher, ready_teacher
from edgebert.errors import InputError, ModelError
from edgebert.types import FloatArray

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.distillation.config import DistillConfig

logger = logging.getLogger(__name__)

LOGITS_ALONE = Wanted()


@dataclass(frozen=True, eq=False)
class Ensemble:
    """What several teachers say together.

    Attributes:
        logits: Of each train row, made ones included, float32 ``[rows, C]``.
        record: Who they are, their weights and scores.
        phases: The curves of those of them, but the first, that were fine-tuned.
        sha256: Of all their weights and shares.
    """

    logits: Tensor
    record: EnsembleRecord
    phases: tuple[PhaseRecord, ...]
    sha256: str

    def batch(self, rows: RowArray, device: torch.device | str) -> Tensor:
        """Give the logits of some rows, float32 ``[B, C]``."""
        return self.logits[torch.from_numpy(rows)].to(device)


@dataclass(frozen=True, eq=False)
class _Answers:
    """One teacher, asked: its model is gone by now."""

    member: MemberRecord
    train: Tensor  # [rows, C]
    dev: FloatArray  # [rows of dev, C]
    sha256: str


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


def ask_teachers(
    first: ReadyTeacher,
    found: Sequence[ResolvedTeacher],
    data: TaskData,
    config: DistillConfig,
    *,
    work: Path,
    device: torch.device,
) -> Ensemble:
    """Ask every teacher for its answers to all train rows, and average them.

    One after the other is loaded, fine-tuned where it has no head, asked in the tokens of its own
    tokenizer, and let go. So no more than two models are in memory. Their answers take four bytes
    a class and row, on disk and in memory, whatever ``cache_size_gb`` says.

    Args:
        first: The first, ready to answer, with made rows if there are any.
        found: All of them, the first one first.
        data: Of the task.
        config: The settings.
        work: The run's work directory. Fine-tuned ones are kept there as ``teacher-2`` and on.
        device: Where they run.

    Raises:
        ModelError: One of them can't be used, or has learned nothing.
        InputError: A score on dev is no weight.
    """
    answers = [_ask(found[0], first, config, work / "cache-1")]
    phases = []
    for number, one in enumerate(found[1:], start=2):
        member = _ready(number, one, data, config, work=work, device=device)
        if member.phase is not None:
            phases.append(member.phase)
        answers.append(_ask(one, member, config, work / f"cache-{number}"))
        del member
        gc.collect()
    shares = _weights([one.member for one in answers], config)
    return _together(answers, shares, tuple(phases), first, config)


def _together(
    answers: Sequence[_Answers],
    shares: Sequence[float],
    phases: tuple[PhaseRecord, ...],
    first: ReadyTeacher,
    config: DistillConfig,
) -> Ensemble:
    dev = first.encoded.dev
    owners = (first.encoded.train.rows.owners, dev.rows.owners)
    train_logits, dev_logits = (
        average_answers(
            logits,
            shares,
            task=config.task,
            problem_type=dev.head.problem_type,
            questions=torch.from_numpy(its),
        )
        for logits, its in zip(
            ([one.train for one in answers], [torch.from_numpy(one.dev) for one in answers]),
            owners,
            strict=True,
        )
    )
    metric = DevScore(dev, metric=config.metric_for_best_model).metric
    members = [
        dataclasses.replace(one.member, weight=share)
        for one, share in zip(answers, shares, strict=True)
    ]
    record = EnsembleRecord(
        weighting=config.teacher_weights,
        metric=metric,
        dev_score=float(evaluate_rows(dev, dev_logits.numpy())[metric]),
        members=tuple(members),
    )
    logger.info("%d teachers together: dev %s %.4f", len(members), metric, record.dev_score)
    digest = hashlib.sha256()
    for one, share in zip(answers, shares, strict=True):
        digest.update(f"{one.sha256} {share!r}\n".encode())
    return Ensemble(train_logits, record, phases, digest.hexdigest())


def _ready(
    number: int,
    found: ResolvedTeacher,
    data: TaskData,
    config: DistillConfig,
    *,
    work: Path,
    device: torch.device,
) -> ReadyTeacher:
    name = f"teacher-{number}"
    logger.info("%s: %s", name, found.used)
    own = work / f"{name}.run"
    try:
        member = ready_teacher(
            found.path,
            data,
            config,
            work=own,
            device=device,
            learning_rate=config.teacher_learning_rate,
            num_train_epochs=config.teacher_num_train_epochs,
        )
    except ModelError as error:
        raise ModelError(f"--extra-teacher {found.requested}: {error}") from error
    if member.phase is not None:
        kept = work / name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(member.directory, kept)
        phase = dataclasses.replace(member.phase, name=name)
        member = dataclasses.replace(member, phase=phase, directory=kept)
    return with_augmented(member, data, config)


def _ask(
    found: ResolvedTeacher, teacher: ReadyTeacher, config: DistillConfig, directory: Path
) -> _Answers:
    train, digest = teacher.encoded.train, weights_sha256(teacher.model)
    cache = TeacherCache(directory, key=digest, limit_bytes=sys.maxsize, bf16=config.bf16)
    label = f"answers of {found.requested}"
    cache.prepare(teacher.model, train.rows.encoded, LOGITS_ALONE, pad_id=train.pad_id, label=label)
    metric = DevScore(teacher.encoded.dev, metric=config.metric_for_best_model).metric
    member = MemberRecord(
        requested=found.requested,
        used=found.used,
        params=sum(parameter.numel() for parameter in teacher.model.parameters()),
        dev_score=teacher.dev[metric],
        weight=0.0,
    )
    return _Answers(
        member=member,
        train=cache.logits(),
        dev=torch_rows(teacher.model, teacher.encoded.dev).values,
        sha256=digest,
    )


def _weights(members: Sequence[MemberRecord], config: DistillConfig) -> list[float]:
    if config.teacher_weights == "uniform":
        return [1 / len(members)] * len(members)
    scores = [one.dev_score for one in members]
    if min(scores) <= 0:
        listed = ", ".join(f"{one.requested}: {one.dev_score:.4f}" for one in members)
        raise InputError(
            f"--teacher-weights dev needs scores above 0 on dev, got {listed}; leave out the worst "
            "teacher, or use --teacher-weights uniform."
        )
    return [score / sum(scores) for score in scores]


def note_of(record: EnsembleRecord) -> str:
    """Say in one sentence who taught, by what weight and how well."""
    listed = ", ".join(
        f"{one.requested} (weight {one.weight:.3f}, {one.dev_score:.4f})" for one in record.members
    )
    return (
        f"{len(record.members)} teachers, their answers averaged: {listed}; together "
        f"{record.dev_score:.4f} {record.metric} on dev. The teacher of the table is the first"
    )
