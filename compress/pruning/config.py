"""The settings of ``compress.prune``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from compress.options import flag, option
from compress.settings import TrainingConfig, require_at_least
from edgebert.errors import InputError

Importance = Literal["taylor", "magnitude"]
Units = Literal["all", "heads", "neurons"]

_GOALS = ("sparsity", "target_size", "num_hidden_layers")
_BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, kw_only=True)
class PruneConfig(TrainingConfig):
    """Cut the heads, neurons or layers that matter least out of a fine-tuned model."""

    least_epochs: ClassVar[int] = 0

    model: str = option(help="Alias (--list-teachers), checkpoint, bundle or hub id")
    teacher_labels: str | None = option(
        None, help="Names of the logits in order, comma-separated, where the model has none"
    )
    sparsity: float | None = option(
        None, help="Part of the parameters of the encoder's layers that goes"
    )
    target_size: str | None = option(
        None, help="Most bytes of the FP32 weights, like 8MB; neurons alone are cut for it"
    )
    num_hidden_layers: int | None = option(None, help="Keep so many whole layers")
    importance: Importance = option(
        "taylor",
        help="taylor: by the gradient of the loss on train rows (of layers, by how the output "
        "changes without them); magnitude: by the norms of weights (layers are evenly spaced)",
    )
    units: Units = option("all", help="What --sparsity cuts: heads, neurons or both")
    importance_batches: int = option(64, help="taylor: batches of train rows to measure on")
    rounds: int = option(1, help="Cut in so many parts, each with its recovery")
    num_train_epochs: int = option(
        2,
        help="Recovery of a round: passes over the train rows in which the cut model imitates "
        "the one that was given; 0 for none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in _GOALS if getattr(self, name) is not None]
        if len(given) != 1:
            names = ", ".join(flag(name) for name in _GOALS)
            got = " and ".join(flag(name) for name in given) or "none"
            raise InputError(f"Give exactly one of {names}; got {got}.")
        if self.sparsity is not None and not 0 < self.sparsity < 1:
            raise InputError(f"sparsity must be above 0 and below 1, got {self.sparsity}.")
        if self.target_size is not None:
            parse_size(self.target_size)
        if self.num_hidden_layers is not None:
            require_at_least("num_hidden_layers", self.num_hidden_layers, 1)
        if self.units != "all" and self.sparsity is None:
            raise InputError(
                f"--units {self.units} says what --sparsity cuts; leave it out with "
                f"{flag(given[0])}."
            )
        require_at_least("importance_batches", self.importance_batches, 1)
        require_at_least("rounds", self.rounds, 1)


def parse_size(text: str) -> int:
    """Read a number of bytes, like ``8MB``, ``800 kB`` or ``8000000``; 1 MB is 10**6 bytes.

    Raises:
        InputError: It is none, or not above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMG]?B)?\s*", text)
    size = int(float(match[1]) * _BYTES[(match[2] or "B").upper()]) if match else 0
    if size < 1:
        raise InputError(
            f"target_size must be a number of bytes above 0, like 8MB, 800kB or 8000000, got "
            f"{text!r}."
        )
    return size
