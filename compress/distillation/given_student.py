"""A student that is there already: a checkpoint, pruned, shared or distilled before, learns on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from compress.data.encoding import require_known_ids
from compress.distillation.imitate import Imitation, train_student
from compress.distillation.student_check import check_training, mapped_layers
from compress.models.dense import dense_parts
from compress.models.files import check_checkpoint
from compress.models.loading import load_teacher, load_tokenizer
from compress.models.pretrained import auto_class, quiet_transformers, task_config
from compress.models.sentence_layout import read_layout
from compress.models.student import BuiltStudent
from compress.models.task_head import TaskHead
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.distillation.config import DistillConfig
    from compress.distillation.ensemble import Ensemble
    from compress.training.phase import Term
    from compress.training.teacher_step import ReadyTeacher

COMPARED_TOKENS = 2000


def check_given(config: DistillConfig, path: Path) -> None:
    """Compose the method for a student's checkpoint and its teacher without their weights.

    Args:
        config: The settings.
        path: The teacher's checkpoint.

    Raises:
        InputError: Method, layer map or recipe don't fit the two, or the settings say how to start
            a student.
        ModelError: The student's directory isn't a checkpoint, or has another tokenizer.
    """
    if config.init != "auto":
        raise InputError(
            f"--init {config.init} says how a new student starts, and {config.student} has its "
            "weights; leave it out."
        )
    check_checkpoint(Path(config.student))
    _require_same_tokens(Path(config.student), path, config)
    ours: Any = task_config(Path(config.student), config.task)
    theirs: Any = task_config(path, config.task)
    ours.num_labels = theirs.num_labels  # compared by name once the data is read
    mapped = _mapped(config, ours, theirs)
    with quiet_transformers(), torch.device("meta"):  # shapes alone
        student, teacher = (auto_class(config.task).from_config(one) for one in (ours, theirs))
    check_training(student, teacher, config, layer_map=mapped)


def imitate_on(
    teacher: ReadyTeacher,
    data: TaskData,
    config: DistillConfig,
    *,
    work: Path,
    ensemble: Ensemble | None = None,
    extra_terms: Mapping[str, Term] | None = None,
) -> Imitation:
    """Load the student that the settings name, and train it; see `imitate` for the arguments.

    Raises:
        ModelError: It has no head for the task, other labels or another pooling than its teacher.
    """
    path = Path(config.student)
    model, head = _load(path, teacher, config)
    return train_student(
        BuiltStudent(model.train(), "checkpoint", None),
        teacher,
        data,
        config,
        head=head,
        layer_map=_mapped(config, model.config, teacher.model.config),
        work=work,
        cache_dir=work / "cache",
        ensemble=ensemble,
        extra_terms=extra_terms,
    )


def _mapped(config: DistillConfig, ours: Any, theirs: Any) -> tuple[int, ...]:
    """Map the layers; ALBERT has them as often as they run."""
    return mapped_layers(config, int(ours.num_hidden_layers), int(theirs.num_hidden_layers))


def _load(path: Path, teacher: ReadyTeacher, config: DistillConfig) -> tuple[Any, TaskHead]:
    head = teacher.encoded.dev.head
    loaded = load_teacher(
        path, task=config.task, labels=head.labels, problem_type=head.problem_type
    )
    if not loaded.has_head:
        raise ModelError(
            f"--student {path} has no head for {config.task}, so it is no student of this task; "
            "give one that was distilled, pruned or trained for it, or numbers like L=4."
        )
    known = int(loaded.model.config.vocab_size)
    for texts in (teacher.encoded.train.rows.encoded, teacher.encoded.dev.encoded):
        require_known_ids(texts, known)
    if head.pooling is not None:
        head = _pooled_head(path, head, config, layers=int(loaded.model.config.num_hidden_layers))
    return loaded.model, head


def _require_same_tokens(path: Path, teacher: Path, config: DistillConfig) -> None:
    """Compare two tokenizers by what they make of the teacher's own tokens, as text."""
    ours, theirs = (load_tokenizer(one, config.max_length) for one in (path, teacher))
    every = max(1, len(theirs.ids) // COMPARED_TOKENS)
    words = [theirs.text_of(int(one)) for one in theirs.ids[::every]]
    words += [word.upper() for word in words]
    pairs = (one.encode(words, max_length=None) for one in (ours, theirs))
    for word, one, other in zip(words, *pairs, strict=True):
        if one.input_ids.tolist() != other.input_ids.tolist():
            raise ModelError(
                f"--student {path} has other tokens than its teacher, such as for {word!r}; both "
                "must share one tokenizer. Give the teacher that it was made of, or the student "
                "itself."
            )


def _pooled_head(path: Path, head: TaskHead, config: DistillConfig, *, layers: int) -> TaskHead:
    """Give an embedder's head with the Dense modules of its own checkpoint."""
    layout = read_layout(path, config.pooling)
    if layout is None:
        raise ModelError(f"--student {path} doesn't say how its vectors are made (modules.json).")
    ours, theirs = (
        f"pooling {how.pooling} of {min(how.pooling_layers, layers)} layers, normalize "
        f"{how.normalize}, {len(dense_parts(how.dense))} Dense modules"
        for how in (layout, head)
    )
    if ours != theirs:
        raise ModelError(
            f"--student {path} makes its vectors otherwise than its teacher: {ours}, not {theirs}. "
            "Give the teacher that it was made of, or the student itself."
        )
    return replace(head, pooling_layers=layout.pooling_layers, dense=layout.dense)
