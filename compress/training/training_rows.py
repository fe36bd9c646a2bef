"""The training rows of a task as batches: what stays together, and what is true of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compress.data.encoding import RowArray, collate
from compress.scoring.targets import Targets
from compress.scoring.task_rows import TaskRows
from compress.training.batches import LengthBatches
from compress.training.masking import mask_tokens
from edgebert.types import IntArray


@dataclass(frozen=True)
class Masking:
    """Hides other tokens in every step, for fill-mask.

    Attributes:
        mask_id: Of the mask token.
        special_ids: Never hidden.
        vocab_size: Random tokens are below it.
    """

    mask_id: int
    special_ids: tuple[int, ...]
    vocab_size: int

    def __call__(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Give a batch with hidden tokens and their ids as ``labels``."""
        return mask_tokens(batch, **vars(self))


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows to train on, in items that a step must see whole.

    An item is a row; where examples are compared within themselves it is an example: a question
    with all its choices, or a pair of texts with its score.

    Attributes:
        rows: What the model runs.
        pad_id: Of the tokenizer.
        whole_examples: Whether an item is a whole example.
        targets: Of the rows; None where there are none to learn from.
        masking: For fill-mask; its labels are the hidden tokens.
    """

    rows: TaskRows
    pad_id: int
    whole_examples: bool = False
    targets: Targets | None = None
    masking: Masking | None = None

    @property
    def lengths(self) -> IntArray:
        """Tokens of each item's longest row, int64 ``[items]``."""
        lengths = self.rows.encoded.lengths
        if not self.whole_examples or not lengths.size:
            return lengths
        first = np.flatnonzero(np.diff(self.rows.owners, prepend=-1))
        return np.maximum.reduceat(lengths, first)

    def batches(self, *, batch_size: int, seed: int) -> LengthBatches:
        """Give the items in batches of about equal length.

        Args:
            batch_size: Items a batch.
            seed: Of the order.
        """
        return LengthBatches(self.lengths, batch_size=batch_size, seed=seed)

    def rows_of(self, items: RowArray) -> RowArray:
        """Give the rows of some items, item by item, int64 ``[B]``."""
        return self.rows.rows_of(items) if self.whole_examples else items

    def batch(self, items: RowArray, *, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """Pad some items.

        Args:
            items: Their numbers, int64.
            device: Where the tensors go.

        Returns:
            What `compress.data.encoding.collate` gives of their rows; ``labels`` where there are
            true ones; with whole examples ``questions``, the item of each row in this batch, int64
            ``[B]``.
        """
        rows = self.rows_of(items)
        batch = collate(self.rows.encoded, rows, pad_id=self.pad_id, device=device)
        if self.whole_examples:
            first = np.diff(self.rows.owners[rows], prepend=-1) != 0
            batch["questions"] = torch.from_numpy(np.cumsum(first) - 1).to(device)
        if self.masking is not None:
            return self.masking(batch)
        if self.targets is not None:
            length = batch["input_ids"].shape[1]
            batch["labels"] = self.targets.batch(rows, length, device=device)
        return batch
