"""The teacher of a run: found, fine-tuned where it has no head, and measured before anything."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compress.curves import phase_record
from compress.data import TaskData
from compress.dev_score import DevScore
from compress.finetune import EncodedData, LossTerm, encode_data, fine_tune
from compress.loading import (
    LoadedModel,
    load_teacher,
    load_tokenizer,
    special_token_ids,
)
from compress.metrics import majority_share
from compress.probe import TaskHead
from compress.report_records import PhaseRecord
from compress.saving import copy_tokenizer, save_model
from compress.sentence_layout import read_layout
from edgebert.errors import ModelError
from edgebert.files import whole_directory

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.distill_config import DistillConfig
    from compress.settings import TrainingConfig
    from edgebert.tokenizer import Tokenizer

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


def ready_classifier(
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
    """Load a classifier, fine-tune it if it has no head for the data's labels, and score it.

    Args:
        path: Its checkpoint.
        data: Labelled texts.
        config: How to train.
        work: The run's work directory; the fine-tuned checkpoint is kept in ``work/teacher``.
        device: Where it runs.
        learning_rate: Of the fine-tuning.
        num_train_epochs: Of the fine-tuning.
        teacher_labels: Names of its logits in their order, where it has none.
        always_train: Also train a model that has a head.
        loaded: A model of one's own instead of the one in ``path``.
        extra_terms: See `compress.finetune.fine_tune`.

    Raises:
        ModelError: It can't be used, or it is no better on dev than the majority class.
    """
    torch.manual_seed(config.seed)  # of a new head
    loaded = loaded or load_teacher(
        path,
        task="text-classification",
        labels=data.labels,
        problem_type=data.problem_type,
        teacher_labels=teacher_labels,
        work_dir=work / "tokenizer",
    )
    tokenizer = load_tokenizer(path, config.max_length, work_dir=work / "tokenizer")
    head = TaskHead(task="text-classification", labels=data.labels, problem_type=data.problem_type)
    encoded = encode_data(tokenizer, data, head, max_length=config.max_length)
    score = DevScore(encoded.dev, metric=config.metric_for_best_model)
    model = loaded.model.to(device)  # type: ignore[arg-type]  # transformers' stub of to()
    phase, directory = None, path
    if always_train or not loaded.has_head:
        logger.info("Fine-tuning the teacher on %d rows.", len(data.train))
        result = fine_tune(
            model,
            tokenizer,
            data,
            encoded,
            config,
            checkpoint_dir=work / "teacher.checkpoints",
            learning_rate=learning_rate,
            num_train_epochs=num_train_epochs,
            extra_terms=extra_terms,
        )
        phase = phase_record(
            "teacher", result.history, result.evals, metric=score.metric, best_step=result.best_step
        )
        directory = work / "teacher"
    dev = score(model)
    logger.info("teacher: dev %s %.4f", score.metric, dev[score.metric])
    _require_better_than_majority(dev, data)
    if phase is not None:
        save_checkpoint(model, loaded.tokenizer_dir, directory)
    return ReadyTeacher(
        model=model,
        tokenizer=tokenizer,
        tokenizer_dir=loaded.tokenizer_dir,
        encoded=encoded,
        dev=dev,
        phase=phase,
        directory=directory,
        special_ids=special_token_ids(loaded.tokenizer_dir, path),
    )


def ready_encoder(
    path: Path,
    data: TaskData,
    config: DistillConfig,
    *,
    work: Path,
    device: torch.device,
    loaded: LoadedModel | None = None,
) -> ReadyTeacher:
    """Load an embedder or a masked language model; it is taken as it is.

    Args:
        path: Its checkpoint.
        data: Plain texts.
        config: The settings; ``pooling`` wins over what the checkpoint says.
        work: The run's work directory.
        device: Where it runs.
        loaded: A model of one's own instead of the one in ``path``.

    Raises:
        ModelError: It can't be used, has no head for fill-mask, or doesn't say how it pools.
    """
    loaded = loaded or load_teacher(path, task=config.task, work_dir=work / "tokenizer")
    special_ids = special_token_ids(loaded.tokenizer_dir, path)
    layout = None
    if config.task == "feature-extraction":
        layout = read_layout(path, config.pooling)
        pooling = config.pooling or (layout.pooling if layout else None)
        if pooling is None:
            raise ModelError(
                f"{path} doesn't say how its vectors are pooled (no modules.json); give "
                "--pooling mean, cls or max, as its authors say."
            )
        head = TaskHead(
            task=config.task, pooling=pooling, normalize=layout.normalize if layout else True
        )
    else:
        _require_masks(path, loaded, special_ids)
        head = TaskHead(task=config.task)
    tokenizer = load_tokenizer(path, config.max_length, work_dir=work / "tokenizer")
    encoded = encode_data(
        tokenizer,
        data,
        head,
        max_length=config.max_length,
        mask_id=special_ids.get("mask_token_id"),
    )
    model = loaded.model.to(device)  # type: ignore[arg-type]  # transformers' stub of to()
    score = DevScore(encoded.dev, metric=config.metric_for_best_model, teacher=model)
    dev = score(model)
    logger.info("teacher: dev %s %.4f", score.metric, dev[score.metric])
    return ReadyTeacher(
        model=model,
        tokenizer=tokenizer,
        tokenizer_dir=loaded.tokenizer_dir,
        encoded=encoded,
        dev=dev,
        phase=None,
        directory=path,
        special_ids=special_ids,
        prompts=layout.prompts if layout else {},
    )


def _require_masks(path: Path, loaded: LoadedModel, special_ids: dict[str, int]) -> None:
    if "mask_token_id" not in special_ids:
        raise ModelError(f"The tokenizer of {path} has no mask token; fill-mask needs one.")
    if not loaded.has_head:
        raise ModelError(
            f"{path} has no masked-language-model head, so it has nothing to teach for fill-mask; "
            "take a pre-trained checkpoint that has one, or --task feature-extraction."
        )


def _require_better_than_majority(dev: dict[str, float], data: TaskData) -> None:
    if data.problem_type == "multi_label_classification":
        score, floor, name = dev["micro_f1"], 0.0, "micro_f1"
    else:
        score, floor, name = dev["accuracy"], majority_share(data.dev.labels or []), "accuracy"
    if score <= floor:
        raise ModelError(
            f"The teacher's {name} on dev is {score:.4f}, no better than always answering the "
            f"most frequent class ({floor:.4f}): a student of it would learn nothing. Check the "
            "labels and their order, or train it longer or at another learning rate."
        )


def save_checkpoint(model: PreTrainedModel, tokenizer_dir: Path, directory: Path) -> None:
    """Write a Hugging Face checkpoint with its tokenizer, whole."""
    with whole_directory(directory) as building:
        save_model(model, building)
        copy_tokenizer(tokenizer_dir, building)
