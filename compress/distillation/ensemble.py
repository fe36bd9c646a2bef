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
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compress.data.encoding import RowArray
from compress.distillation.augmentation import with_augmented
from compress.distillation.average import average_answers
from compress.distillation.members import require_like_vectors
from compress.distillation.teacher_cache import TeacherCache
from compress.models.capture import Features, Wanted
from compress.models.teachers import ResolvedTeacher
from compress.reporting.records import EnsembleRecord, MemberRecord, PhaseRecord
from compress.scoring.probe import torch_rows
from compress.scoring.scores import evaluate_rows
from compress.training.checkpoint import weights_sha256
from compress.training.dev_score import DevScore
from compress.training.teacher_step import ReadyTeacher, ready_teacher
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.distillation.config import DistillConfig

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """What several teachers say together.

    Attributes:
        answers: To each train row, made ones included, float32: logits ``[rows, C]``, or of
            embedders pooled vectors ``[rows, H]``.
        kind: ``logits`` or ``pooled``.
        record: Who they are, their weights and scores.
        phases: The curves of those of them, but the first, that were fine-tuned.
        sha256: Of all their weights and shares.
    """

    answers: Tensor
    kind: str
    record: EnsembleRecord
    phases: tuple[PhaseRecord, ...]
    sha256: str

    def without(self, wanted: Wanted) -> Wanted:
        """Give what is wanted of the first teacher itself."""
        if self.kind == "pooled":
            return dataclasses.replace(wanted, pooled=None, pooling_layers=1)
        return dataclasses.replace(wanted, logits=False)

    def put(self, features: Features, rows: RowArray, device: torch.device | str) -> None:
        """Set the answers to some rows in place of the first teacher's own."""
        setattr(features, self.kind, self.answers[torch.from_numpy(rows)].to(device))


@dataclass(frozen=True, eq=False)
class _Answers:
    """One teacher, asked: its model is gone by now."""

    member: MemberRecord
    said: tuple[Tensor, Tensor] | None  # of train and dev, [rows, C or H]; not asked: None
    sha256: str


def ask_teachers(
    first: ReadyTeacher,
    found: Sequence[ResolvedTeacher],
    data: TaskData,
    config: DistillConfig,
    *,
    work: Path,
    device: torch.device,
    shares: Sequence[float] | None = None,
) -> Ensemble:
    """Ask every teacher that has a share for its answers to all train rows, and average them.

    One after the other is loaded, fine-tuned where it has no head, asked in the tokens of its own
    tokenizer, and let go. So no more than two models are in memory. Their answers take four bytes
    a class (or number of a vector) and row, on disk and in memory, whatever ``cache_size_gb`` says.

    Args:
        first: The first, ready to answer, with made rows if there are any.
        found: All of them, the first one first.
        data: Of the task.
        config: The settings.
        work: The run's work directory. Fine-tuned ones are kept there as ``teacher-2`` and on.
        device: Where they run.
        shares: Of each, their sum 1; by default as the settings say.

    Raises:
        ModelError: One of them can't be used, has learned nothing, or makes vectors otherwise.
        InputError: A score on dev is no weight.
    """
    given = shares or config.teacher_shares
    asked = [share > 0 for share in given or [1] * len(found)]
    answers = [_ask(found[0], first, config, work / "cache-1" if asked[0] else None)]
    phases = []
    for number, one in enumerate(found[1:], start=2):
        member = _ready(number, one, data, config, work=work, device=device)
        if member.phase is not None:
            phases.append(member.phase)
        require_like_vectors(one, member, first)
        cache = work / f"cache-{number}" if asked[number - 1] else None
        answers.append(_ask(one, member, config, cache))
        del member
        gc.collect()
    shares = given or _weights([one.member for one in answers], config)
    return _together(answers, shares, tuple(phases), first, config)


def _together(
    answers: Sequence[_Answers],
    shares: Sequence[float],
    phases: tuple[PhaseRecord, ...],
    first: ReadyTeacher,
    config: DistillConfig,
) -> Ensemble:
    dev = first.encoded.dev
    metric = DevScore(dev, metric=config.metric_for_best_model).metric
    said = [one.said for one in answers if one.said is not None]
    if len(said) == 1:  # vectors of two embedders have no average
        train = said[0][0]
        score = next(one.member.dev_score for one in answers if one.said is not None)
    else:
        train, dev_logits = (
            average_answers(
                logits,
                [share for share in shares if share],
                task=config.task,
                problem_type=dev.head.problem_type,
                questions=torch.from_numpy(owners),
            )
            for logits, owners in zip(
                zip(*said, strict=True),
                (first.encoded.train.rows.owners, dev.rows.owners),
                strict=True,
            )
        )
        score = float(evaluate_rows(dev, dev_logits.numpy())[metric])
    members = [
        dataclasses.replace(one.member, weight=share)
        for one, share in zip(answers, shares, strict=True)
    ]
    record = EnsembleRecord(
        weighting=config.teacher_weights,
        metric=metric,
        dev_score=score,
        members=tuple(members),
    )
    logger.info("%d teachers together: dev %s %.4f", len(members), metric, record.dev_score)
    digest = hashlib.sha256()
    for one, share in zip(answers, shares, strict=True):
        digest.update(f"{one.sha256} {share!r}\n".encode())
    kind = "pooled" if dev.head.pooling else "logits"
    return Ensemble(train, kind, record, phases, digest.hexdigest())


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
    found: ResolvedTeacher, teacher: ReadyTeacher, config: DistillConfig, directory: Path | None
) -> _Answers:
    """Ask a teacher, and keep what it says in a directory; without one it is not asked."""
    train, dev, digest = teacher.encoded.train, teacher.encoded.dev, weights_sha256(teacher.model)
    said = None
    if directory is not None:
        cache = TeacherCache(
            directory,
            key=digest,
            limit_bytes=sys.maxsize,
            bf16=config.bf16,
            shared=config.cache_dir,
        )
        label, head = f"answers of {found.requested}", dev.head
        wanted = Wanted(
            logits=head.pooling is None, pooled=head.pooling, pooling_layers=head.pooling_layers
        )
        cache.prepare(teacher.model, train.rows.encoded, wanted, pad_id=train.pad_id, label=label)
        answers = cache.by_row("pooled" if head.pooling else "logits")
        said = answers, torch.from_numpy(torch_rows(teacher.model, dev).values)
    metric = DevScore(dev, metric=config.metric_for_best_model).metric
    member = MemberRecord(
        requested=found.requested,
        used=found.used,
        params=sum(parameter.numel() for parameter in teacher.model.parameters()),
        dev_score=teacher.dev[metric],
        weight=0.0,
    )
    return _Answers(
        member=member,
        said=said,
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
    alone = any(one.weight == 1 for one in record.members)
    said = "all answers are of the one with weight 1" if alone else "their answers averaged"
    return (
        f"{len(record.members)} teachers, {said}: {listed}; together "
        f"{record.dev_score:.4f} {record.metric} on dev. The teacher of the table is the first"
    )
