"""Fine-tune a full-size model on labels: what ``compress.train`` and a headless teacher need."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from compress.batches import LengthBatches
from compress.capture import Wanted, forward_features
from compress.data import Split, TaskData
from compress.dev_score import DevScore
from compress.encoding import EncodedTexts, RowArray, collate, encode_texts
from compress.loop import LoopResult, LoopSettings, train_loop
from compress.losses import hard_label_loss
from compress.probe import Probe, TaskHead, make_probe
from compress.tensorboard import event_writer
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from compress.settings import TrainingConfig
    from edgebert.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

LossTerm = Callable[[Any, Any, Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class EncodedData:
    """What training looks at, as token ids.

    Attributes:
        train: Training rows.
        dev: What picks the weights.
        train_labels: See `label_tensor`; None for a task without labels.
    """

    train: EncodedTexts
    dev: Probe
    train_labels: Tensor | None


def encode_data(
    tokenizer: Tokenizer,
    data: TaskData,
    head: TaskHead,
    *,
    max_length: int,
    mask_id: int | None = None,
) -> EncodedData:
    """Encode train and dev once.

    Args:
        tokenizer: Of teacher and student.
        data: Texts.
        head: Of the task.
        max_length: Longest input in tokens.
        mask_id: Id of the mask token, for fill-mask.
    """
    train = data.train
    return EncodedData(
        train=encode_texts(tokenizer, train.texts, train.text_pairs, max_length=max_length),
        dev=make_probe(data.dev, head, tokenizer, max_length=max_length, mask_id=mask_id),
        train_labels=label_tensor(train, data) if data.labels else None,
    )


def label_tensor(split: Split, data: TaskData) -> Tensor:
    """Turn a split's labels into what the losses take.

    Returns:
        int64 ``[rows]`` of positions in ``data.labels``; multi-label: float32 ``[rows, classes]``
        of 0 and 1.
    """
    index = {name: at for at, name in enumerate(data.labels)}
    if data.problem_type != "multi_label_classification":
        return torch.tensor([index[str(label)] for label in split.labels or []])
    targets = torch.zeros(len(split), len(data.labels))
    for row, names in enumerate(split.labels or []):
        for name in names if isinstance(names, tuple) else (str(names),):
            targets[row, index[name]] = 1.0
    return targets


def class_weight_tensor(config: TrainingConfig, data: TaskData) -> Tensor | None:
    """Read ``--class-weights``: ``label=2.5``, or ``balanced`` for rows / (classes * rows of it).

    Raises:
        InputError: A label that the data doesn't have, or a weight that is no number above 0.
    """
    if not config.class_weights:
        return None
    if config.class_weights == ("balanced",):
        targets = label_tensor(data.train, data)
        multi = targets.dim() == 2
        counts = targets.sum(0) if multi else torch.bincount(targets, minlength=len(data.labels))
        return len(data.train) / (len(data.labels) * counts.float().clamp(min=1.0))
    weights = torch.ones(len(data.labels))
    for text in config.class_weights:
        label, _, number = text.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = 0.0
        if label not in data.labels or not weight > 0:
            raise InputError(
                f"--class-weights {text!r} must be 'balanced' or label=weight with a label of "
                f"{', '.join(data.labels)} and a weight above 0."
            )
        weights[data.labels.index(label)] = weight
    return weights


def fine_tune(
    model: nn.Module,
    tokenizer: Tokenizer,
    data: TaskData,
    encoded: EncodedData,
    config: TrainingConfig,
    *,
    checkpoint_dir: Path,
    learning_rate: float,
    num_train_epochs: int,
    extra_terms: Mapping[str, LossTerm] | None = None,
) -> LoopResult:
    """Train a classifier on true labels; its best weights by dev are in ``model`` afterwards.

    Args:
        model: A transformers model with a head of ``len(data.labels)`` logits.
        tokenizer: Its tokenizer.
        data: Texts and labels.
        encoded: The same as token ids.
        config: How to train.
        checkpoint_dir: Of this training alone.
        learning_rate: Peak.
        num_train_epochs: Passes over train.
        extra_terms: Loss terms of one's own by name: ``term(features, None, batch)`` gives a
            weighted scalar.

    Raises:
        InputError: There are no labels, or ``class_weights`` don't fit them.
        ModelError: The model gives no logits.
    """
    score = DevScore(encoded.dev, metric=config.metric_for_best_model)
    weights = class_weight_tensor(config, data)
    device = next(model.parameters()).device
    if encoded.train_labels is None:
        raise InputError("Fine-tuning needs labels; give --label-column.")
    labels = encoded.train_labels.to(device)
    weights = weights.to(device) if weights is not None else None

    def step(rows: RowArray) -> dict[str, Tensor]:
        batch = collate(encoded.train, rows, pad_id=tokenizer.pad_id, device=device)
        batch["labels"] = labels[batch["rows"]]
        features = forward_features(model, batch, Wanted())
        if features.logits is None:
            raise ModelError(f"{type(model).__name__} gives no logits; it has no head.")
        terms = {"hard": hard_label_loss(features.logits, batch["labels"], class_weights=weights)}
        for name, term in (extra_terms or {}).items():
            terms[name] = term(features, None, batch)
        return terms

    settings = dataclasses.replace(
        LoopSettings.from_config(
            config, metric_name=score.metric, greater_is_better=score.greater_is_better
        ),
        learning_rate=learning_rate,
        num_train_epochs=num_train_epochs,
    )
    return train_loop(
        modules=nn.ModuleDict({"model": model}),
        step=step,
        batches=LengthBatches(
            encoded.train.lengths,
            batch_size=config.per_device_train_batch_size,
            seed=config.seed,
        ),
        settings=settings,
        checkpoint_dir=checkpoint_dir,
        evaluate=score.of(model),
        progress_label="teacher",
        resume=config.resume,
        on_entry=event_writer(config, "teacher"),
        fingerprint={
            "train": data.train.sha256,
            "dev": data.dev.sha256,
            "tokens": encoded.train.sha256,
            "class_weights": list(config.class_weights),
        },
    )
