"""The texts that gates and scores look at, and one row of numbers for each, whoever computes it.

A row is a text's logits, its pooled vector, the logits at its one masked token, or the logits of a
token. Torch and every engine are asked for the same rows, so they can be compared and scored alike.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from compress.data.encoding import EncodedTexts, RowArray, collate
from compress.data.load import Split
from compress.data.task_data import take
from compress.models.capture import model_inputs
from compress.models.graph_module import task_outputs
from compress.models.task_head import HIDDEN, SENTENCE
from compress.models.task_head import TaskHead as TaskHead
from compress.scoring.predict import MAX_TOKENS, evaluating
from compress.scoring.task_rows import TaskRows, make_rows, take_rows
from edgebert.engines.batching import plan_batches
from edgebert.errors import DataError
from edgebert.pooling import pool as pool_array
from edgebert.text.tokenizer import Tokenizer
from edgebert.types import Batch, FloatArray, IntArray
from runtimes.base import Backend

logger = logging.getLogger(__name__)

MAX_MASKED_TEXTS = 500  # a row is as wide as the vocabulary: 60 MB


@dataclass(frozen=True, eq=False)
class Probe:
    """A split, encoded as the bundle will encode it.

    Attributes:
        split: Texts and, where there are, labels.
        head: What a row is.
        rows: What the model runs.
        pad_id: Of the tokenizer.
        masked: fill-mask: place of each text's masked token, int64 ``[n]``; else None.
        answers: fill-mask: the id that was there, int64 ``[n]``; else None.
        no_answer_threshold: question-answering with questions that have no answer: see the
            manifest; None before it is calibrated.
    """

    split: Split
    head: TaskHead
    rows: TaskRows
    pad_id: int
    masked: IntArray | None = None
    answers: IntArray | None = None
    no_answer_threshold: float | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def measured(self) -> int:
        """How many examples of the split are run; for fill-mask it may be a part of them."""
        return len(np.unique(self.rows.owners))

    @property
    def encoded(self) -> EncodedTexts:
        """The token ids of each row."""
        return self.rows.encoded

    @property
    def token_stream(self) -> IntArray:
        """All ids behind each other, int64: real tokens for batches of any shape."""
        return np.concatenate(self.encoded.input_ids).astype(np.int64)

    @property
    def size(self) -> int:
        """How many rows of numbers there are: one a row, or one a token."""
        return int(self.encoded.lengths.sum()) if self.head.per_token else len(self)

    def places(self, rows: RowArray) -> IntArray:
        """Say where in `Rows.values` the numbers of some rows are, row by row, int64 ``[n]``."""
        chosen = np.asarray(rows, dtype=np.int64)
        if not self.head.per_token:
            return chosen
        starts = self.rows.starts
        parts = [np.arange(starts[row], starts[row + 1]) for row in chosen]
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def make_probe(
    split: Split,
    head: TaskHead,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    stride: int | None = None,
    mask_id: int | None = None,
    seed: int = 0,
) -> Probe:
    """Encode a split for a task.

    Args:
        split: Not empty.
        head: Of the task.
        tokenizer: The bundle's.
        max_length: Longest input in tokens.
        stride: Tokens that neighbouring windows share; None for a quarter of ``max_length``.
        mask_id: Id of the mask token; needed for fill-mask.
        seed: Of the choice of the masked tokens.

    Raises:
        DataError: fill-mask without a mask token or without a token to mask; or see `make_rows`.
    """
    if head.task != "fill-mask":
        rows = make_rows(split, head, tokenizer, max_length=max_length, stride=stride)
        return Probe(split, head, rows, tokenizer.pad_id)
    if mask_id is None:
        raise DataError("The tokenizer has no mask token, so fill-mask can't be measured.")
    chosen = sample_places(len(split), MAX_MASKED_TEXTS)  # a file may be sorted
    if len(chosen) < len(split):
        logger.warning(
            "%s: fill-mask is measured on %d of %d texts, evenly spaced.",
            *(split.source, len(chosen), len(split)),
        )
    few = take(split, chosen, name=split.name, source=split.source)
    rows = make_rows(few, head, tokenizer, max_length=max_length)
    rows = replace(rows, owners=chosen)
    return _masked_probe(split, head, rows, tokenizer.pad_id, mask_id=mask_id, seed=seed)


def _masked_probe(
    split: Split, head: TaskHead, rows: TaskRows, pad_id: int, *, mask_id: int, seed: int
) -> Probe:
    rng = np.random.default_rng(seed)
    encoded = rows.encoded
    ids, types, places, answers, owners = [], [], [], [], []
    for row, text in enumerate(encoded.input_ids):
        if len(text) < 3:  # the special tokens alone
            continue
        place = int(rng.integers(1, len(text) - 1))
        answers.append(int(text[place]))
        masked = text.copy()
        masked[place] = mask_id
        ids.append(masked)
        types.append(encoded.token_type_ids[row])
        places.append(place)
        owners.append(int(rows.owners[row]))
    if not ids:
        raise DataError(f"{split.source} has no text with a token that could be masked.")
    kept = EncodedTexts(ids, types, encoded.sha256, encoded.dropped_tokens)
    return Probe(
        split,
        head,
        TaskRows(kept, np.array(owners, dtype=np.int64)),
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
    masked = None if probe.masked is None else probe.masked[rows]
    answers = None if probe.answers is None else probe.answers[rows]
    return replace(probe, rows=take_rows(probe.rows, rows), masked=masked, answers=answers)


def sample_values(probe: Probe, values: FloatArray, count: int) -> FloatArray:
    """Take the numbers of the same rows out of those of the whole probe."""
    return values[probe.places(sample_places(len(probe), count))]


@dataclass(frozen=True)
class Rows:
    """What a model said of a probe.

    Attributes:
        values: float32 ``[n, width]``, in the order of the probe: one a row of the model; for
            ``token-classification`` one a real token, row by row; for ``question-answering`` that
            too, with the logits of start and end.
        seconds: Wall time that it took.
        runs: Rows of the model.
    """

    values: FloatArray
    seconds: float
    runs: int

    @property
    def texts_per_s(self) -> float:
        """Throughput."""
        return self.runs / self.seconds


def torch_rows(model: nn.Module, probe: Probe) -> Rows:
    """Run a torch model in FP32, batched by length."""
    device = next(model.parameters()).device
    lengths = probe.encoded.lengths.tolist()

    def parts() -> Iterator[tuple[list[int], FloatArray]]:
        for rows in plan_batches(lengths, max_tokens=MAX_TOKENS):
            batch = collate(probe.encoded, np.asarray(rows), pad_id=probe.pad_id, device=device)
            mask = batch["attention_mask"]
            inputs = model_inputs(model, batch)
            if probe.head.task == "multiple-choice":  # each choice as a question of one choice
                inputs = {name: values[:, None] for name, values in inputs.items()}
            outputs = task_outputs(model, inputs, probe.head, mask=mask)
            picked = _pick(outputs, mask.bool(), probe, rows)
            yield rows, _values([part.float().cpu().numpy() for part in picked], probe)

    with evaluating(model):
        return _collect(probe, parts())


def engine_rows(
    backend: Backend,
    probe: Probe,
    *,
    batch_invariant: bool,
    batches: Sequence[list[int]] | None = None,
) -> Rows:
    """Run an artifact on its engine, batched as the runtime does.

    Args:
        backend: The artifact, opened.
        probe: Texts.
        batch_invariant: False runs every row alone, as results would depend on its mates.
        batches: Rows of each batch, to run them in these instead; every row once.
    """
    lengths = probe.encoded.lengths.tolist()
    if batches is None:
        batches = plan_batches(lengths, batch_size=None if batch_invariant else 1)

    def parts() -> Iterator[tuple[list[int], FloatArray]]:
        for rows in batches:
            batch = probe_batch(probe, rows)
            outputs: dict[str, Any] = dict(backend.run(batch))
            if probe.head.task == "feature-extraction" and SENTENCE not in outputs:
                how = probe.head.pooling or "mean"  # a graph that ends at the last hidden state
                outputs[SENTENCE] = pool_array(outputs[HIDDEN], batch.attention_mask, how)
            yield rows, _values(_pick(outputs, batch.attention_mask == 1, probe, rows), probe)

    return _collect(probe, parts())


def probe_batch(probe: Probe, rows: list[int]) -> Batch:
    """Pad some rows of a probe for an engine."""
    arrays = collate(probe.encoded, np.asarray(rows, dtype=np.int64), pad_id=probe.pad_id)
    return Batch(
        arrays["input_ids"].numpy(),
        arrays["attention_mask"].numpy(),
        arrays["token_type_ids"].numpy(),
        np.zeros(len(rows), dtype=np.int64),
    )


def _pick(outputs: dict[str, Any], real: Any, probe: Probe, rows: list[int]) -> list[Any]:
    """Take what counts of a batch's outputs, tensors or arrays: the rows, or the real tokens."""
    if probe.masked is not None:
        return [outputs["logits"][list(range(len(rows))), probe.masked[rows].tolist()]]
    if probe.head.per_token:
        return [outputs[name][real] for name in probe.head.outputs]
    return [outputs[probe.head.outputs[0]]]


def _values(parts: list[FloatArray], probe: Probe) -> FloatArray:
    if len(parts) > 1:  # start and end
        return np.stack(parts, axis=-1)
    values = parts[0]
    if not probe.head.normalize:
        return values
    # unlike the runtime's own, this lets NaN and zero rows through to the gate, which says why
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.maximum(norms, 1e-12), dtype=np.float32)


def _collect(probe: Probe, parts: Iterable[tuple[list[int], FloatArray]]) -> Rows:
    """Put the numbers of batches into the order of the probe, and take the time."""
    start = time.perf_counter()
    found: FloatArray | None = None
    for rows, values in parts:
        if found is None:
            found = np.empty((probe.size, values.shape[1]), dtype=np.float32)
        found[probe.places(np.asarray(rows))] = values
    if found is None:
        raise DataError(f"{probe.split.source} has no row to run.")
    return Rows(found, time.perf_counter() - start, len(probe))
