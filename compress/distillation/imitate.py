"""Train a student to imitate its teacher, phase by phase."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from compress.data.encoding import RowArray
from compress.distillation.exits import train_exits
from compress.distillation.hardening import hardened
from compress.distillation.methods import MethodSettings, build_phases
from compress.distillation.student_check import method_of, method_settings
from compress.distillation.student_start import set_dropout, start_student
from compress.distillation.teacher_cache import TeacherCache
from compress.models.capture import forward_features
from compress.models.dense import student_dense
from compress.models.student import BuiltStudent
from compress.models.task_head import TaskHead
from compress.reporting.curves import phase_record
from compress.reporting.records import PhaseRecord
from compress.training.checkpoint import weights_sha256
from compress.training.dev_score import DevScore
from compress.training.finetune import class_weight_tensor
from compress.training.loop import LoopSettings, train_loop
from compress.training.phase import Phase, Term, merge_wanted
from compress.training.tensorboard import event_writer

if TYPE_CHECKING:
    from compress.data.load import TaskData
    from compress.distillation.config import DistillConfig
    from compress.distillation.ensemble import Ensemble
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)

Entry = Mapping[str, float]  # of a loop's history or of its measurements


@dataclasses.dataclass(frozen=True)
class Imitation:
    """A trained student.

    Attributes:
        built: The student; its model has the trained weights and is in eval mode.
        phases: The curves of each phase.
        layer_map: 1-based teacher layer of each student layer.
        method: As used; never ``auto``.
        head: What its outputs mean; an embedder's Dense modules are its own, as are exits.
    """

    built: BuiltStudent
    phases: tuple[PhaseRecord, ...]
    layer_map: tuple[int, ...]
    method: str
    head: TaskHead


def imitate(
    teacher: ReadyTeacher,
    data: TaskData,
    config: DistillConfig,
    *,
    work: Path,
    cache_dir: Path | None = None,
    ensemble: Ensemble | None = None,
    extra_terms: Mapping[str, Term] | None = None,
    on_entry: Callable[[Entry], None] | None = None,
) -> Imitation:
    """Build a student and train it; its weights after each phase are the best on dev.

    Args:
        teacher: Ready to answer.
        data: Texts, with or without labels.
        config: The settings.
        work: Where cache and checkpoints go; one sub-folder a phase.
        cache_dir: Where the teacher's outputs go, if not into ``work``: runs can share them.
        ensemble: What several teachers say, in place of the teacher's own answers.
        extra_terms: The caller's own loss terms, added to the last phase.
        on_entry: Called with each new entry of the last phase; what it raises ends the training.
    """
    cache_dir = cache_dir or work / "cache"
    built, mapped = start_student(teacher, config, cache_dir=cache_dir.with_name("tokens"))
    head = student_head(teacher.encoded.dev.head, built, seed=config.seed)
    if not config.num_train_epochs:
        return Imitation(built, (), mapped, "static", head)
    return train_student(
        built,
        teacher,
        data,
        config,
        head=head,
        layer_map=mapped,
        work=work,
        cache_dir=cache_dir,
        ensemble=ensemble,
        extra_terms=extra_terms,
        on_entry=on_entry,
    )


def train_student(
    built: BuiltStudent,
    teacher: ReadyTeacher,
    data: TaskData,
    config: DistillConfig,
    *,
    head: TaskHead,
    layer_map: tuple[int, ...],
    work: Path,
    cache_dir: Path,
    ensemble: Ensemble | None = None,
    extra_terms: Mapping[str, Term] | None = None,
    on_entry: Callable[[Entry], None] | None = None,
) -> Imitation:
    """Train a student that is there; its weights after each phase are the best on dev.

    Args:
        built: The student.
        teacher: Ready to answer.
        data: Texts, with or without labels.
        config: The settings, but for those that say how a student is made.
        head: What the student's outputs mean; its Dense modules are trained with it.
        layer_map: 1-based teacher layer of each student layer.
        work: Where checkpoints go; one sub-folder a phase.
        cache_dir: Where the teacher's outputs go.
        ensemble: What several teachers say, in place of the teacher's own answers.
        extra_terms: The caller's own loss terms, added to the last phase.
        on_entry: Called with each new entry of the last phase.
    """
    method = method_of(config)
    set_dropout(built.model, config.dropout)
    phases = build_phases(
        method,
        student=built.model,
        teacher=teacher.model,
        layer_map=layer_map,
        config=_method_settings(config, data, teacher),
        task=config.task,
        basis=built.basis,
        dense=_both_dense(head, teacher),
        extra_terms=extra_terms,
    )
    device = teacher.model.device
    built.model.to(device)  # type: ignore[arg-type]  # transformers' stub of to()
    if head.dense is not None:
        head.dense.to(device)
    cache = TeacherCache(
        cache_dir,
        key=weights_sha256(teacher.model),
        limit_bytes=int(config.cache_size_gb * 1e9),
        bf16=config.bf16,
        shared=config.cache_dir,
    )
    train = teacher.encoded.train
    wanted = merge_wanted(phase.teacher_wanted for phase in phases)
    cache.prepare(
        teacher.model,
        train.rows.encoded,
        wanted if ensemble is None else ensemble.without(wanted),
        pad_id=train.pad_id,
        live=train.masking is not None,  # every step hides other tokens
    )
    run = _Run(teacher, config, built.model, head, cache, data.train.sha256, ensemble, on_entry)
    records = [
        run.train(phase, work / f"phase-{number}", last=phase is phases[-1])
        for number, phase in enumerate(phases, start=1)
    ]
    if config.makes_exits:
        head, record = train_exits(
            built.model, head, teacher, config, work=work, train_sha256=data.train.sha256
        )
        records.append(record)
    return Imitation(built, tuple(records), layer_map, method, head)


def student_head(head: TaskHead, built: BuiltStudent, *, seed: int) -> TaskHead:
    """Say what the student's outputs mean: what the teacher's do, with its own Dense modules."""
    config = built.model.config
    return dataclasses.replace(
        head,
        pooling=head.pooling if config.num_hidden_layers else "mean",
        pooling_layers=max(1, min(head.pooling_layers, int(config.num_hidden_layers))),
        dense=student_dense(
            head.dense, hidden_size=int(config.hidden_size), basis=built.basis, seed=seed
        ),
    )


def _both_dense(head: TaskHead, teacher: ReadyTeacher) -> tuple[nn.Module, nn.Module] | None:
    theirs = teacher.encoded.dev.head.dense
    return None if head.dense is None or theirs is None else (head.dense, theirs)


@dataclasses.dataclass(frozen=True)
class _Run:
    """What all phases share."""

    teacher: ReadyTeacher
    config: DistillConfig
    student: nn.Module
    head: TaskHead
    cache: TeacherCache
    train_sha256: str  # of the labels too, which may be learned from
    ensemble: Ensemble | None
    on_entry: Callable[[Entry], None] | None

    def train(self, phase: Phase, checkpoint_dir: Path, *, last: bool) -> PhaseRecord:
        """Run one phase and give its curves."""
        train, dev, config = self.teacher.encoded.train, self.teacher.encoded.dev, self.config
        device = self.teacher.model.device
        phase.projections.to(device)

        def step(items: RowArray) -> dict[str, Tensor]:
            batch, rows = train.batch(items, device=device), train.rows_of(items)
            theirs = self.cache.features(rows, batch)
            if self.ensemble is not None:
                self.ensemble.put(theirs, rows, device)
            ours = forward_features(self.student, batch, phase.student_wanted)
            return phase.losses(ours, theirs, batch)

        score = DevScore(
            dataclasses.replace(dev, head=self.head),
            metric=config.metric_for_best_model,
            teacher=self.teacher.model,
            teacher_head=dev.head,
        )
        settings = LoopSettings.from_config(
            config, metric_name=score.metric, greater_is_better=score.greater_is_better
        )
        if not last:
            settings = dataclasses.replace(settings, num_train_epochs=config.intermediate_epochs)
        modules = nn.ModuleDict({"student": self.student, "projections": phase.projections})
        if self.head.dense is not None:
            modules["dense"] = self.head.dense
        with hardened(config, self.student, self.head, last=last) as facts:
            result = train_loop(
                modules=modules,
                step=step,
                batches=train.batches(
                    batch_size=config.per_device_train_batch_size, seed=config.seed
                ),
                settings=settings,
                checkpoint_dir=checkpoint_dir,
                evaluate=score.of(self.student) if phase.reports_score else None,
                progress_label=phase.name,
                resume=config.resume,
                on_entry=_told(event_writer(config, phase.name), self.on_entry if last else None),
                fingerprint={
                    "teacher": weights_sha256(self.teacher.model),
                    "student": weights_sha256(self.student),
                    "train": self.train_sha256,
                    "tokens": train.rows.encoded.sha256,
                    "dev": dev.split.sha256,
                    "terms": {name: f"{weight:g}" for name, weight in phase.weights.items()},
                    **({"teachers": self.ensemble.sha256} if self.ensemble else {}),
                    **facts,
                },
            )
        return phase_record(
            phase.name,
            result.history,
            result.evals,
            metric=score.metric,
            best_step=result.best_step,
            note=phase.note,
        )


def _told(*listeners: Callable[[Entry], None] | None) -> Callable[[Entry], None]:
    def tell(entry: Entry) -> None:
        for listener in listeners:
            if listener is not None:
                listener(entry)

    return tell


def _method_settings(
    config: DistillConfig, data: TaskData, teacher: ReadyTeacher
) -> MethodSettings:
    weights, head = class_weight_tensor(config, data), teacher.encoded.dev.head
    if weights is not None and not config.hard_weight:
        logger.warning(
            "The student learns from soft targets alone (--hard-weight 0), so --class-weights "
            "only count where the teacher is fine-tuned."
        )
    return method_settings(
        config,
        class_weights=None if weights is None else tuple(weights.tolist()),
        problem_type=data.problem_type or config.problem_type,
        pooling=head.pooling or "mean",
        pooling_layers=head.pooling_layers,
    )
