"""A torch model's answers to many texts, in the order of the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from compress.capture import model_inputs
from compress.encoding import EncodedTexts, collate
from edgebert.batching import plan_batches
from edgebert.types import FloatArray

MAX_TOKENS = 8192  # padded cells a batch


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off for a block, and put the mode back afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def predict(
    model: nn.Module,
    encoded: EncodedTexts,
    *,
    pad_id: int,
    head: Callable[[Any, dict[str, Tensor]], Tensor] | None = None,
) -> FloatArray:
    """Run a model over texts in FP32, batched by length.

    Args:
        model: Any transformers model.
        encoded: The texts, encoded with the model's own tokenizer.
        pad_id: Of the model's tokenizer.
        head: Makes ``[batch, width]`` of the model's output and the batch; default its ``logits``.

    Returns:
        float32 ``[len(encoded), width]``, in the order of the texts.
    """
    device = next(model.parameters()).device
    rows_out: list[FloatArray | None] = [None] * len(encoded.input_ids)
    lengths = [len(ids) for ids in encoded.input_ids]
    with evaluating(model):
        for rows in plan_batches(lengths, max_tokens=MAX_TOKENS):
            batch = collate(encoded, np.asarray(rows), pad_id=pad_id, device=device)
            output = model(**model_inputs(model, batch))
            vectors = output.logits if head is None else head(output, batch)
            for row, vector in zip(rows, vectors.float().cpu().numpy(), strict=True):
                rows_out[row] = vector
    return np.asarray(rows_out, dtype=np.float32)
