"""More texts for a student: copies of the train rows with other words, for the teacher to label."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from compress.data.encoding import join_encoded
from compress.distillation.augmented_rows import (
    ROWS_NAME,
    RowCopies,
    read_copies,
    write_copies,
)
from compress.distillation.word_candidates import WordCandidates
from compress.models.loading import load_teacher, load_tokenizer
from compress.models.teachers import ResolvedTeacher, resolve_teacher
from compress.scoring.targets import IGNORED, Targets
from compress.scoring.task_rows import TaskRows, make_rows
from compress.training.checkpoint import weights_sha256
from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.data.task_data import Split, TaskData
    from compress.distillation.config import DistillConfig
    from compress.training.teacher_step import ReadyTeacher

logger = logging.getLogger(__name__)

AUGMENTED = "augmented"  # the folder of a run's work directory that it keeps


def augment(
    data: TaskData,
    found: ResolvedTeacher,
    config: DistillConfig,
    *,
    work: Path,
    device: torch.device,
) -> TaskData:
    """Make changed copies of the train rows, without labels: what is true of them nobody knows.

    Which words are exchanged for which follows from ``config.seed`` alone. Copies that are like
    their row or like each other are left out. All stand in ``work/augmented/rows.jsonl``.

    Args:
        data: Of the task.
        found: The teacher, which proposes words where ``config.augment_model`` names no other.
        config: The settings.
        work: The run's work directory.
        device: Where the model runs.

    Returns:
        The data with ``augmented``.

    Raises:
        ModelError: The model that is to propose words can't be had, or has no head for it.
        DataError: No word of any row can be exchanged.
        KeyboardInterrupt: After SIGINT, with the finished rows kept.
    """
    proposer = found
    if config.augment_model is not None:
        proposer = resolve_teacher(config.augment_model, no_fallback=True)
    loaded = load_teacher(proposer.path, task="fill-mask")
    tokenizer = load_tokenizer(proposer.path, config.max_length)
    masked = loaded.has_head and tokenizer.mask_id is not None
    if not masked:
        _tell_of_no_head(proposer, config)
    model = loaded.model.to(device)  # type: ignore[arg-type]  # transformers' stub of to()
    candidates = WordCandidates(
        model, tokenizer, masked=masked, top_k=config.augment_top_k, bf16=config.bf16
    )
    write_copies(
        work / AUGMENTED,
        RowCopies(data.train, tokenizer, candidates, config),
        key=_key(data.train, config, model, masked=masked),
    )
    source = f"changed copies of train, words by {proposer.used}"
    source += "" if masked else ", as neighbours of its input embeddings alone"
    augmented = read_copies(work / AUGMENTED, source=source)
    logger.info(
        "augmented: %d copies of %d rows in %s",
        *(len(augmented), len(data.train), work / AUGMENTED / ROWS_NAME),
    )
    return dataclasses.replace(data, augmented=augmented)


def with_augmented(teacher: ReadyTeacher, data: TaskData, config: DistillConfig) -> ReadyTeacher:
    """Put the made rows behind a teacher's train rows, with marks that say "no label".

    So a loss on true labels leaves them out, see `compress.training.losses.hard_label_loss`.

    Args:
        teacher: Ready to answer; what it was fine-tuned on stays as it is.
        data: With or without ``augmented``.
        config: The settings.

    Raises:
        InputError: The train rows are compared within pairs with a score.
    """
    if data.augmented is None:
        return teacher
    train, head = teacher.encoded.train, teacher.encoded.dev.head
    if train.whole_examples:
        raise InputError("--augment needs train rows that stand alone, not pairs with a score.")
    more = make_rows(data.augmented, head, teacher.tokenizer, max_length=config.max_length)
    rows = TaskRows(
        join_encoded([train.rows.encoded, more.encoded]),
        np.concatenate([train.rows.owners, more.owners + len(data.train)]),
    )
    targets = None if train.targets is None else _with_unknown(train.targets, len(more))
    train = dataclasses.replace(train, rows=rows, targets=targets)
    encoded = dataclasses.replace(teacher.encoded, train=train)
    return dataclasses.replace(teacher, encoded=encoded)


def _with_unknown(targets: Targets, count: int) -> Targets:
    values = targets.values
    if values is None:
        raise InputError("--augment needs labels of whole rows.")
    unknown = torch.nan if values.is_floating_point() else IGNORED
    return Targets(torch.cat([values, values.new_full((count, *values.shape[1:]), unknown)]))


def _tell_of_no_head(proposer: ResolvedTeacher, config: DistillConfig) -> None:
    lack = f"{proposer.used} has no masked-language-model head"
    if config.augment_model is not None:
        raise ModelError(
            f"--augment-model: {lack}, so it can't propose words; give a checkpoint that has one, "
            "or leave it out to take words with a like input embedding of the teacher."
        )
    logger.warning(
        "%s, so --augment takes words with a like input embedding, which may not fit the sentence; "
        "--augment-model names a model with that head.",
        lack,
    )


def _key(train: Split, config: DistillConfig, model: PreTrainedModel, *, masked: bool) -> str:
    """Name all that the copies follow from, bit for bit."""
    facts = {
        "train": train.sha256,
        "weights": weights_sha256(model) if masked else weights_sha256(model.base_model),
        "masked": masked,
        "copies": config.augment,
        "probability": config.augment_probability,
        "top_k": config.augment_top_k,
        "max_length": config.max_length,
        "seed": config.seed,
        "bf16": config.bf16,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": model.device.type,
    }
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
