"""Fine-tune a full-size model on labels: what ``compress.train`` and a headless teacher need."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from compress.data.encoding import RowArray
from compress.data.load import Split, TaskData
from compress.models.capture import forward_features
from compress.models.pretrained import NAMED
from compress.models.task_head import TaskHead
from compress.scoring.probe import Probe, make_probe
from compress.scoring.targets import Targets, make_targets
from compress.scoring.task_rows import TaskRows, make_rows
from compress.training.dev_score import DevScore
from compress.training.loop import LoopResult, LoopSettings, train_loop
from compress.training.phase import Phase, Term
from compress.training.target_terms import hard_term
from compress.training.tensorboard import event_writer
from compress.training.terms import VectorHeads, pair_term
from compress.training.training_rows import Masking, TrainingRows
from edgebert.errors import InputError

if TYPE_CHECKING:
    from compress.settings import TrainingConfig
    from edgebert.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

LossTerm = Callable[[Any, Any, Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True)
class EncodedData:
    """What training looks at, as token ids.

    Attributes:
        train: Rows to train on, with what is true of them.
        dev: What picks the weights.
    """

    train: TrainingRows
    dev: Probe


def encode_data(
    tokenizer: Tokenizer,
    data: TaskData,
    head: TaskHead,
    *,
    max_length: int,
    stride: int | None = None,
    masking: Masking | None = None,
) -> EncodedData:
    """Encode train and dev once.

    Args:
        tokenizer: Of teacher and student.
        data: Texts.
        head: Of the task.
        max_length: Longest input in tokens.
        stride: Tokens that neighbouring windows of a long text share; None for a quarter of
            ``max_length``.
        masking: For fill-mask.
    """
    rows = make_rows(data.train, head, tokenizer, max_length=max_length, stride=stride)
    scored = head.task == "feature-extraction" and data.train.labels is not None
    dev = make_probe(
        data.dev,
        head,
        tokenizer,
        max_length=max_length,
        stride=stride,
        mask_id=None if masking is None else masking.mask_id,
    )
    train = TrainingRows(
        rows,
        tokenizer.pad_id,
        whole_examples=scored or head.task == "multiple-choice",
        targets=_targets(rows, data.train, head),
        masking=masking,
    )
    return EncodedData(train, dev)


def _targets(rows: TaskRows, train: Split, head: TaskHead) -> Targets | None:
    if train.labels is None:
        return None
    if head.task != "feature-extraction":
        return make_targets(rows, train, head)
    scores = np.asarray(train.labels, dtype=np.float32)
    low, high = float(scores.min()), float(scores.max())
    if not high > low:
        raise InputError(
            f"All pairs of {train.source} have the score {low:g}, so there is nothing to learn "
            "from them; give pairs of different scores."
        )
    if low < -1 or high > 1:  # another scale than a cosine's
        scores = (scores - low) / (high - low)
    return Targets(torch.from_numpy(scores), owners=rows.owners)


def class_weight_tensor(config: TrainingConfig, data: TaskData) -> Tensor | None:
    """Read ``--class-weights``: ``label=2.5``, or ``balanced`` for rows / (classes * rows of it).

    For tags, words are counted instead of rows.

    Raises:
        InputError: The task has no classes, a label that the data doesn't have, or a weight that
            is no number above 0.
    """
    if not config.class_weights:
        return None
    if config.task not in NAMED:
        raise InputError(
            f"--class-weights needs the classes of {' or '.join(NAMED)}; {config.task} has none."
        )
    if config.class_weights == ("balanced",):
        counts, total = _label_counts(data)
        return total / (len(data.labels) * counts.clamp(min=1.0))
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


def _label_counts(data: TaskData) -> tuple[Tensor, int]:
    """Count how often each label is given in train, float32 ``[C]``, and rows or words in all."""
    labels: list[Any] = list(data.train.labels or [])
    several = [one if isinstance(one, tuple) else (one,) for one in labels]
    counts = Counter(str(name) for names in several for name in names)
    words = data.train.word_spans is not None
    total = sum(map(len, several)) if words else len(several)
    return torch.tensor([float(counts[label]) for label in data.labels]), total


def fine_tune(
    model: nn.Module,
    data: TaskData,
    encoded: EncodedData,
    config: TrainingConfig,
    *,
    checkpoint_dir: Path,
    learning_rate: float,
    num_train_epochs: int,
    extra_terms: Mapping[str, LossTerm] | None = None,
) -> LoopResult:
    """Train a model on true labels; its best weights by dev are in ``model`` afterwards.

    The Dense module of an embedder's head is trained with it.

    Args:
        model: A transformers model with the head of the task.
        data: Texts and labels.
        encoded: The same as token ids.
        config: How to train.
        checkpoint_dir: Of this training alone.
        learning_rate: Peak.
        num_train_epochs: Passes over train.
        extra_terms: Loss terms of one's own by name: ``term(features, None, batch)`` gives a
            weighted scalar.

    Raises:
        InputError: There is nothing true to learn from, or ``class_weights`` don't fit it.
        ModelError: The model gives no logits.
    """
    head = encoded.dev.head
    score = DevScore(encoded.dev, metric=config.metric_for_best_model)
    phase = Phase(name="teacher", terms={"hard": true_term(encoded, config, data)})
    device = next(model.parameters()).device

    def step(items: RowArray) -> dict[str, Tensor]:
        batch = encoded.train.batch(items, device=device)
        features = forward_features(model, batch, phase.student_wanted)
        terms = phase.losses(features, features, batch)
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
    modules = nn.ModuleDict({"model": model})
    if head.dense is not None:
        modules["dense"] = head.dense
    return train_loop(
        modules=modules,
        step=step,
        batches=encoded.train.batches(
            batch_size=config.per_device_train_batch_size, seed=config.seed
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
            "tokens": encoded.train.rows.encoded.sha256,
            "class_weights": list(config.class_weights),
        },
    )


def true_term(encoded: EncodedData, config: TrainingConfig, data: TaskData) -> Term:
    """Give the loss on what is true.

    Raises:
        InputError: There is nothing true to learn from, or ``class_weights`` don't fit it.
    """
    train, head = encoded.train, encoded.dev.head
    weights = class_weight_tensor(config, data)
    if head.task == "feature-extraction":
        if train.targets is None or data.dev.labels is None:
            raise InputError(
                "Training an embedder needs pairs of texts with a score, in dev too: give "
                "--text-column, --text-pair-column and --label-column. compress.distill needs "
                "plain texts alone."
            )
        dense = head.dense if head.dense is not None else nn.Identity()
        return pair_term(
            VectorHeads(
                pooling=head.pooling or "mean",
                student_layers=head.pooling_layers,
                student_dense=dense,
            )
        )
    if train.targets is None and train.masking is None:
        raise InputError("Fine-tuning needs labels; give --label-column.")
    return hard_term(head.task, None if weights is None else tuple(weights.tolist()))
