"""The texts that gates and scores look at, and one row of numbers for each, whoever computes it.

A row is a text's logits, its pooled vector, or the logits at its one masked token. Torch and every
engine are asked for the same rows, so they can be compared and scored alike.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from compress.capture import pool
from compress.data import Split
from compress.encoding import EncodedTexts, collate, encode_texts
from compress.predict import predict
from compress.task_head import TaskHead as TaskHead
from edgebert.batching import plan_batches
from edgebert.errors import DataError
from edgebert.pooling import pool as pool_array
from edgebert.tokenizer import Tokenizer
from edgebert.types import Batch, FloatArray, IntArray
from runtimes.base import Backend

MAX_MASKED_TEXTS = 500  # a row is as wide as the vocabulary: 60 MB


@dataclass(frozen=True, eq=False)
class Probe:
    """A split, encoded as the bundle will encode it.

    Attributes:
        split: Texts and, where there are, labels or scores.
        head: What a row is.
        encoded: One entry a row; for scored pairs all first texts and then all second ones.
        pad_id: Of the tokenizer.
        masked: fill-mask: place of each text's masked token, int64 ``[n]``; else None.
        answers: fill-mask: the id that was there, int64 ``[n]``; else None.
    """

    split: Split
    head: TaskHead
    encoded: EncodedTexts
    pad_id: int
    masked: IntArray | None = None
    answers: IntArray | None = None

    def __len__(self) -> int:
        return len(self.encoded)

    @property
    def token_stream(self) -> IntArray:
        """All ids behind each other, int64: real tokens for batches of any shape."""
        return np.concatenate(self.encoded.input_ids).astype(np.int64)


def make_probe(
    split: Split,
    head: TaskHead,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    mask_id: int | None = None,
    seed: int = 0,
) -> Probe:
    """Encode a split for a task.

    Args:
        split: Not empty.
        head: Of the task.
        tokenizer: The bundle's.
        max_length: Longest input in tokens.
        mask_id: Id of the mask token; needed for fill-mask.
        seed: Of the choice of the masked tokens.

    Raises:
        DataError: fill-mask without a mask token or without a token to mask.
    """
    if head.task == "text-classification":
        encoded = encode_texts(tokenizer, split.texts, split.text_pairs, max_length=max_length)
        return Probe(split, head, encoded, tokenizer.pad_id)
    if head.task == "feature-extraction":
        texts = [*split.texts, *(split.text_pairs or [])]
        return Probe(
            split, head, encode_texts(tokenizer, texts, max_length=max_length), tokenizer.pad_id
        )
    if mask_id is None:
        raise DataError("The tokenizer has no mask token, so fill-mask can't be measured.")
    texts = split.texts[:MAX_MASKED_TEXTS]
    encoded = encode_texts(tokenizer, texts, max_length=max_length)
    return _masked_probe(split, head, encoded, tokenizer.pad_id, mask_id=mask_id, seed=seed)


def _masked_probe(
    split: Split, head: TaskHead, encoded: EncodedTexts, pad_id: int, *, mask_id: int, seed: int
) -> Probe:
    rng = np.random.default_rng(seed)
    ids, types, places, answers = [], [], [], []
    for text, type_ids in zip(encoded.input_ids, encoded.token_type_ids, strict=True):
        if len(text) < 3:  # the special tokens alone
            continue
        place = int(rng.integers(1, len(text) - 1))
        answers.append(int(text[place]))
        masked = text.copy()
        masked[place] = mask_id
        ids.append(masked)
        types.append(type_ids)
        places.append(place)
    if not ids:
        raise DataError(f"{split.source} has no text with a token that could be masked.")
    return Probe(
        split,
        head,
        EncodedTexts(ids, types, encoded.sha256, encoded.dropped_tokens),
        pad_id,
        np.array(places, dtype=np.int64),
        np.array(answers, dtype=np.int64),
    )


def sample_places(rows: int, count: int) -> IntArray:
    """Choose evenly spaced rows, int64 ``[<= count]``."""
    return np.unique(np.linspace(0, rows - 1, min(count, rows)).astype(np.int64))


def sample_probe(probe: Probe, count: int) -> Probe:
    """Take the rows of `sample_places` for a quick look: outputs alone, they can't be scored."""
    rows = sample_places(len(probe), count)
    encoded = EncodedTexts(
        [probe.encoded.input_ids[row] for row in rows],
        [probe.encoded.token_type_ids[row] for row in rows],
        probe.encoded.sha256,
    )
    masked = None if probe.masked is None else probe.masked[rows]
    answers = None if probe.answers is None else probe.answers[rows]
    return Probe(probe.split, probe.head, encoded, probe.pad_id, masked, answers)


@dataclass(frozen=True)
class Rows:
    """What a model said of a probe.

    Attributes:
        values: float32 ``[n, width]``, in the order of the probe.
        seconds: Wall time that it took.
    """

    values: FloatArray
    seconds: float

    @property
    def texts_per_s(self) -> float:
        """Throughput."""
        return len(self.values) / self.seconds


def torch_rows(model: nn.Module, probe: Probe) -> Rows:
    """Run a torch model in FP32, batched by length."""
    head, masked = probe.head, probe.masked

    def row(output: Any, batch: dict[str, Tensor]) -> Tensor:
        if head.task == "feature-extraction":
            how = head.pooling or "mean"
            vectors = pool(output.last_hidden_state, batch["attention_mask"], how).float()
            return nn.functional.normalize(vectors, dim=-1) if head.normalize else vectors
        logits: Tensor = output.logits
        if masked is None:
            return logits
        places = torch.from_numpy(masked)[batch["rows"].cpu()]
        return logits[torch.arange(len(places)), places.to(logits.device)]

    start = time.perf_counter()
    values = predict(model, probe.encoded, pad_id=probe.pad_id, head=row)
    return Rows(values, time.perf_counter() - start)


def engine_rows(backend: Backend, probe: Probe, *, batch_invariant: bool) -> Rows:
    """Run an artifact on its engine, batched as the runtime does.

    Args:
        backend: The artifact, opened.
        probe: Texts.
        batch_invariant: False runs every text alone, as results would depend on its mates.
    """
    lengths = probe.encoded.lengths.tolist()
    parts: list[FloatArray] = []
    order: list[int] = []
    start = time.perf_counter()
    for rows in plan_batches(lengths, batch_size=None if batch_invariant else 1):
        batch = probe_batch(probe, rows)
        parts.append(_row_arrays(backend.run(batch), batch, probe, np.asarray(rows)))
        order.extend(rows)
    stacked = np.concatenate(parts)
    values = np.empty_like(stacked)
    values[order] = stacked
    return Rows(values, time.perf_counter() - start)


def probe_batch(probe: Probe, rows: list[int]) -> Batch:
    """Pad some rows of a probe for an engine."""
    arrays = collate(probe.encoded, np.asarray(rows, dtype=np.int64), pad_id=probe.pad_id)
    return Batch(
        arrays["input_ids"].numpy(),
        arrays["attention_mask"].numpy(),
        arrays["token_type_ids"].numpy(),
        np.zeros(len(rows), dtype=np.int64),
    )


def _row_arrays(
    outputs: dict[str, FloatArray], batch: Batch, probe: Probe, rows: IntArray
) -> FloatArray:
    head = probe.head
    if head.task == "feature-extraction":
        how = str(head.pooling or "mean")
        vectors = pool_array(outputs["last_hidden_state"], batch.attention_mask, how)
        if not head.normalize:
            return vectors
        # unlike the runtime's own, this lets NaN and zero rows through to the gate, which says why
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)
    logits = outputs["logits"]
    if probe.masked is None:
        return logits
    return np.asarray(logits[np.arange(len(rows)), probe.masked[rows]])
