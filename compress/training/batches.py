"""Which rows make a batch: close in length, in an order that the seed and the epoch alone fix."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from compress.settings import require_at_least
from edgebert.errors import DataError

_BATCHES_A_CHUNK = 50  # sorted together: little padding left, and still another mix every epoch


class LengthBatches:
    """Rows in batches of about equal length, shuffled anew every epoch.

    The order is a function of the seed and the number of the epoch, so a resumed run needs no
    state to go on in the middle of one.

    Args:
        lengths: Tokens of each row, ``[rows]``.
        batch_size: Rows a batch; one batch of an epoch may be smaller.
        seed: Of the order.

    Raises:
        DataError: There are no rows.
        InputError: ``batch_size`` is below 1.
    """

    def __init__(self, lengths: npt.ArrayLike, *, batch_size: int, seed: int) -> None:
        require_at_least("batch_size", batch_size, 1)
        self.lengths = np.asarray(lengths, np.int64)
        if not self.lengths.size:
            raise DataError("There is no row to train on; give a file with at least one.")
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        """Batches an epoch."""
        return -(-self.lengths.size // self.batch_size)

    def epoch(self, number: int) -> list[npt.NDArray[np.int64]]:
        """Give every row once, in int64 ``[B]`` arrays.

        Args:
            number: Of the epoch, from 0.
        """
        random = np.random.default_rng((self.seed, number))
        rows = random.permutation(self.lengths.size)
        chunk = self.batch_size * _BATCHES_A_CHUNK
        batches = []
        for start in range(0, rows.size, chunk):
            part = rows[start : start + chunk]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += [
                part[at : at + self.batch_size] for at in range(0, part.size, self.batch_size)
            ]
        return [batches[at] for at in random.permutation(len(batches))]

    def fingerprint(self) -> dict[str, str | int]:
        """Say in JSON's terms what the order depends on."""
        return {
            "rows": int(self.lengths.size),
            "lengths": hashlib.sha256(self.lengths.tobytes()).hexdigest(),
            "batch_size": self.batch_size,
            "seed": self.seed,
        }
