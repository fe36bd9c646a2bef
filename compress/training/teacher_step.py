"""The teacher of a run: found, fine-tuned where it has no head, and measured before anything."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compress.data.encoding import require_known_ids
from compress.data.load import TaskData
from compress.models.capture import Wanted, require_layers
from compress.models.loading import (
    LoadedModel,
    load_teacher,
    load_tokenizer,
    special_token_ids,
)
from compress.models.saving import copy_tokenizer, save_model
from compress.models.sentence_layout import SentenceLayout, read_layout, write_layout
from compress.models.task_head import TaskHead
from compress.reporting.curves import phase_record
from compress.reporting.records import PhaseRecord
from compress.scoring.metrics import majority_share
from compress.training.dev_score import DevScore
from compress.training.finetune import EncodedData, LossTerm, encode_data, fine_tune
from compress.training.training_rows import Masking
from edgebert.errors import ModelError
from edgebert.files import whole_directory

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.settings import TrainingConfig
    from edgebert.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadyTeacher:
    """A teacher that can answer.

    Attributes:
        model: In eval mode on the run's device, its logits in the order of the data's labels.
        tokenizer: Its own.
        tokenizer_dir: Directory with the tokenizer's files.
        encoded: The data in its tokens.
        dev: Its metrics on dev; empty for a task that is scored against the teacher.
        phase: The curves of its fine-tuning; None when it came with a head.
        directory: Where it stands: the checkpoint given, or the fine-tuned one.
        special_ids: Ids of the special tokens by name, like ``mask_token_id``.
        prompts: Text before an input by role, of an embedder that has such.
    """

    model: PreTrainedModel
    tokenizer: Tokenizer
    tokenizer_dir: Path
    encoded: EncodedData
    dev: dict[str, float]
    phase: PhaseRecord | None
    directory: Path
    special_ids: dict[str, int]
    prompts: dict[str, str] = field(default_factory=dict)


def ready_teacher(
    path: Path,
    data: TaskData,
    config: TrainingConfig,
    *,
    work: Path,
    device: torch.device,
    learning_rate: float,
    num_train_epochs: int,
    teacher_labels: tuple[str, ...] = (),
    always_train: bool = False,
    loaded: LoadedModel | None = None,
    extra_terms: Mapping[str, LossTerm] | None = None,
) -> ReadyTeacher:
    """Load a model, fine-tune it if it has no head for the task, and score it.

    Args:
        path: Its checkpoint.
        data: Of the task.
        config: How to train; its ``pooling`` wins over what an embedder's checkpoint says.
        work: The run's work directory; the fine-tuned checkpoint is kept in ``work/teacher``.
        device: Where it runs.
        learning_rate: Of the fine-tuning.
        num_train_epochs: Of the fine-tuning.
        teacher_labels: Names of its logits in their order, where it has none.
        always_train: Also train a model that has a head.
        loaded: A model of one's own instead of the one in ``path``.
        extra_terms: See `compress.training.finetune.fine_tune`.

    Raises:
        ModelError: It can't be used, its tokenizer is another's, or it has learned nothing: see
            `require_learned`.
    """
    torch.manual_seed(config.seed)  # of a new head
    loaded = loaded or load_teacher(
        path,
        task=config.task,
        labels=data.labels,
        problem_type=data.problem_type,
        teacher_labels=teacher_labels,
        work_dir=work / "tokenizer",
    )
    special_ids = special_token_ids(loaded.tokenizer_dir, path)
    layout = read_layout(path, config.pooling) if config.task == "feature-extraction" else None
    head = task_head(config, data, layout, path=path)
    require_layers(loaded.model, Wanted(pooling_layers=head.pooling_layers))
    masking = None
    if config.task == "fill-mask":
        masking = _masking(path, loaded, special_ids, always_train=always_train)
    tokenizer = load_tokenizer(path, config.max_length, work_dir=work / "tokenizer")
    encoded = encode_data(
        tokenizer,
        data,
        head,
        max_length=config.max_length,
        stride=config.doc_stride,
        masking=masking,
    )
    for texts in (encoded.train.rows.encoded, encoded.dev.encoded):
        require_known_ids(texts, loaded.model.config.vocab_size)
    model = loaded.model.to(device)  # type: ignore[arg-type]  # transformers' stub of to()
    if head.dense is not None:
        head.dense.to(device)
    result = None
    if always_train or not loaded.has_head:
        logger.info("Fine-tuning the teacher on %d rows.", len(data.train))
        result = fine_tune(
            model,
            data,
            encoded,
            config,
            checkpoint_dir=work / "teacher.checkpoints",
            learning_rate=learning_rate,
            num_train_epochs=num_train_epochs,
            extra_terms=extra_terms,
        )
    score = DevScore(encoded.dev, metric=config.metric_for_best_model, teacher=model)
    dev = score(model)
    logger.info("teacher: dev %s %.4f", score.metric, dev[score.metric])
    require_learned(dev, data, config.task)
    phase = None
    if result is not None:
        phase = phase_record(
            "teacher", result.history, result.evals, metric=score.metric, best_step=result.best_step
        )
        save_checkpoint(model, loaded.tokenizer_dir, work / "teacher", head=head, layout=layout)
    return ReadyTeacher(
        model=model,
        tokenizer=tokenizer,
        tokenizer_dir=loaded.tokenizer_dir,
        encoded=encoded,
        dev=dev,
        phase=phase,
        directory=path if phase is None else work / "teacher",
        special_ids=special_ids,
        prompts=layout.prompts if layout else {},
    )


def task_head(
    config: TrainingConfig, data: TaskData, layout: SentenceLayout | None, *, path: Path
) -> TaskHead:
    """Say what the outputs of a run's models mean.

    Args:
        config: Its ``pooling`` and ``pooling_layers`` win over the checkpoint's.
        data: Names the labels, and says whether a question may have no answer.
        layout: What an embedder's checkpoint says.
        path: The checkpoint, for messages.

    Raises:
        ModelError: Neither says how an embedder pools.
    """
    if config.task == "feature-extraction":
        pooling = config.pooling or (layout.pooling if layout else None)
        if pooling is None:
            raise ModelError(
                f"{path} doesn't say how its vectors are pooled (no modules.json); give "
                "--pooling mean, cls or max, as its authors say."
            )
        own_layers = layout.pooling_layers if layout else 1
        return TaskHead(
            task=config.task,
            pooling=pooling,
            pooling_layers=config.pooling_layers or own_layers,
            normalize=layout.normalize if layout else True,
            dense=layout.dense if layout else None,
        )
    return TaskHead(
        task=config.task,
        labels=data.labels,
        problem_type=data.problem_type if config.task == "text-classification" else None,
        no_answer=config.task == "question-answering" and data.no_answer,
        max_answer_length=config.max_answer_length or TaskHead.max_answer_length,
    )


def _masking(
    path: Path, loaded: LoadedModel, special_ids: dict[str, int], *, always_train: bool
) -> Masking:
    if "mask_token_id" not in special_ids:
        raise ModelError(f"The tokenizer of {path} has no mask token; fill-mask needs one.")
    if not loaded.has_head and not always_train:
        raise ModelError(
            f"{path} has no masked-language-model head, so it has nothing to teach for fill-mask; "
            "take a pre-trained checkpoint that has one, train one with compress.train --task "
            "fill-mask, or use --task feature-extraction."
        )
    vocab_size = int(loaded.model.config.vocab_size)
    return Masking(special_ids["mask_token_id"], tuple(special_ids.values()), vocab_size)


def require_learned(dev: dict[str, float], data: TaskData, task: str) -> None:
    """Refuse a teacher that knows nothing of its task, before hours go into a student of it.

    Raises:
        ModelError: It is no better than chance, see `no_better_than_chance`.
    """
    if found := no_better_than_chance(dev, data, task):
        raise ModelError(
            f"The teacher's {found}: a student of it would learn nothing. Check the labels and "
            "their order, or train it longer or at another learning rate."
        )


def no_better_than_chance(dev: dict[str, float], data: TaskData, task: str) -> str:
    """Say in words that a model knows nothing of its task; empty where it does.

    Classes and choices are compared with always giving the most frequent answer, tags with
    finding nothing; other tasks have no such measure.
    """
    if task == "token-classification":
        score, floor, name, dull = dev["entity_f1"], 0.0, "entity_f1", "finding nothing"
    elif data.problem_type == "multi_label_classification":
        score, floor, name, dull = dev["micro_f1"], 0.0, "micro_f1", "giving no label"
    elif task in ("text-classification", "multiple-choice"):
        score, floor, name = dev["accuracy"], majority_share(data.dev.labels or []), "accuracy"
        dull = "answering the most frequent class"
    else:
        return ""
    if score > floor:
        return ""
    return f"{name} on dev is {score:.4f}, no better than always {dull} ({floor:.4f})"


def save_checkpoint(
    model: PreTrainedModel,
    tokenizer_dir: Path,
    directory: Path,
    *,
    head: TaskHead,
    layout: SentenceLayout | None = None,
) -> None:
    """Write a Hugging Face checkpoint with its tokenizer, whole.

    Args:
        model: With its head.
        tokenizer_dir: Where its tokenizer's files are.
        directory: Where it goes.
        head: Of an embedder, says how vectors are made.
        layout: What an embedder's checkpoint said: its length limit and prompts are kept.
    """
    with whole_directory(directory) as building:
        save_model(model, building)
        copy_tokenizer(tokenizer_dir, building)
        if head.task == "feature-extraction":
            write_layout(
                building,
                SentenceLayout(
                    pooling=head.pooling or "mean",
                    normalize=head.normalize,
                    pooling_layers=head.pooling_layers,
                    dense=head.dense,
                    max_length=layout.max_length if layout else None,
                    prompts=layout.prompts if layout else {},
                ),
                hidden_size=int(model.config.hidden_size),
                num_hidden_layers=int(model.config.num_hidden_layers),
            )
