"""A static student before its training: what its teacher says of each token of the vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from compress.data.encoding import EncodedTexts, collate, join_encoded
from compress.distillation.teacher_cache import TeacherCache
from compress.models.capture import Wanted
from compress.models.static_student import build_static
from compress.models.vocabulary import vocab_rows
from compress.training.checkpoint import weights_sha256
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from compress.distillation.config import DistillConfig
    from compress.models.student import Architecture, BuiltStudent
    from compress.training.teacher_step import ReadyTeacher
    from edgebert.text.tokenizer import Tokenizer

_BATCH_ROWS = 512


def start_static(
    architecture: Architecture,
    teacher: ReadyTeacher,
    config: DistillConfig,
    *,
    cache_dir: Path,
    counts: Tensor,
) -> BuiltStudent:
    """Build a static student of its teacher's vectors of the tokens.

    Args:
        architecture: Of no layers.
        teacher: Its pooling makes the vectors.
        config: How the teacher may be run.
        cache_dir: Keeps the vectors, so that an interrupted run goes on.
        counts: How often each token occurs in the train texts, ``[V]``.

    Raises:
        ModelError: The teacher has Dense modules, which need not be linear: a mean of what they
            make of tokens isn't what they make of a mean.
    """
    head, pad_id = teacher.encoded.dev.head, teacher.tokenizer.pad_id
    if head.dense is not None:
        raise ModelError(
            "A static student can't be made of a teacher that has Dense modules behind its "
            "pooling; give a student of one layer, --student L=1, or another teacher."
        )
    tokens = lone_tokens(teacher.tokenizer, vocab_rows(teacher.model))
    cache = TeacherCache(
        cache_dir,
        key=weights_sha256(teacher.model),
        limit_bytes=int(config.cache_size_gb * 1e9),
        bf16=config.bf16,
    )
    wanted = Wanted(logits=False, pooled=head.pooling, pooling_layers=head.pooling_layers)
    cache.prepare(teacher.model, tokens, wanted, pad_id=pad_id, label="the vocabulary's vectors")
    parts: list[Tensor] = []
    for start in range(0, len(tokens), _BATCH_ROWS):
        rows = np.arange(start, min(start + _BATCH_ROWS, len(tokens)))
        batch = collate(tokens, rows, pad_id=pad_id, device=teacher.model.device)
        pooled = cache.features(rows, batch).pooled
        parts += [] if pooled is None else [pooled.float().cpu()]
    return build_static(
        architecture,
        teacher.model,
        vectors=torch.cat(parts),
        counts=counts,
        special_ids=sorted(set(teacher.special_ids.values())),
        pad_id=pad_id,
    )


def lone_tokens(tokenizer: Tokenizer, vocab_size: int) -> EncodedTexts:
    """Make a text of each token alone, between the special tokens that any text gets.

    Args:
        tokenizer: Of the teacher.
        vocab_size: Of the teacher; ids that no token has are there too.
    """
    example = tokenizer.encode(["a"], max_length=None)[0]
    inner = np.flatnonzero(example.text_ids >= 0)
    ids = example.input_ids.astype(np.int32)
    before, after = ids[: inner[0]], ids[inner[-1] + 1 :]
    rows = [
        np.concatenate([before, [token], after]).astype(np.int32) for token in range(vocab_size)
    ]
    types = np.zeros(len(before) + 1 + len(after), np.int32)
    return join_encoded([EncodedTexts(rows, [types] * vocab_size, sha256="")])
