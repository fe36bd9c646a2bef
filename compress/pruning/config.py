"""The settings of ``compress.prune``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from compress.options import flag, option
from compress.settings import TrainingConfig, check_backends, require_at_least
from edgebert.errors import InputError

Importance = Literal["taylor", "magnitude", "movement"]
Units = Literal["all", "heads", "neurons"]

_GOALS = ("target_speedup", "sparsity", "target_size", "num_hidden_layers", "hidden_size")
_BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True, kw_only=True)
class PruneConfig(TrainingConfig):
    """Cut the heads, neurons, layers or dimensions that matter least out of a fine-tuned model."""

    least_epochs: ClassVar[int] = 0

    model: str = option(help="Alias (--list-teachers), checkpoint, bundle or hub id")
    teacher_labels: str | None = option(
        None, help="Names of the logits in order, comma-separated, where the model has none"
    )
    target_speedup: float | None = option(
        None,
        help="Cut heads and neurons until one text of 32 tokens takes so many times less in FP32, "
        "measured on --backend",
    )
    sparsity: float | None = option(
        None, help="Part of the parameters of the encoder's layers that goes"
    )
    target_size: str | None = option(
        None, help="Most bytes of the FP32 weights, like 8MB; neurons alone are cut for it"
    )
    num_hidden_layers: int | None = option(None, help="Keep so many whole layers")
    hidden_size: int | None = option(
        None, help="Keep so many dimensions, a multiple of a head's width; heads go with them"
    )
    unstructured: bool = option(
        False,
        help="Make single weights of the layers zero instead, by --sparsity: smaller when it is "
        "compressed, and no faster",
    )
    importance: Importance = option(
        "taylor",
        help="taylor: by the gradient of the loss on train rows (of layers, by how the output "
        "changes without them); magnitude: by the norms of weights (layers are evenly spaced); "
        "movement: by how fast weights leave 0 in a fine-tuning",
    )
    units: Units = option(
        "all", help="What --sparsity and --target-speedup cut: heads, neurons or both"
    )
    importance_batches: int = option(
        64, help="taylor, movement: batches of train rows to measure on"
    )
    backend: str = option(
        "auto",
        help="Engine that latency is measured on, or torch (default auto: the first that is "
        "installed)",
    )
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
        if self.target_speedup is not None and not 1 < self.target_speedup < math.inf:
            raise InputError(f"target_speedup must be above 1, got {self.target_speedup}.")
        if self.target_size is not None:
            parse_size(self.target_size)
        for name in ("num_hidden_layers", "hidden_size"):
            if getattr(self, name) is not None:
                require_at_least(name, getattr(self, name), 1)
        if self.units != "all" and self.sparsity is None and self.target_speedup is None:
            raise InputError(
                f"--units {self.units} says what --sparsity and --target-speedup cut; leave it out "
                f"with {flag(given[0])}."
            )
        if self.num_hidden_layers is not None and self.importance == "movement":
            raise InputError(
                "--importance movement is of weights, not of whole layers; give taylor or "
                "magnitude with --num-hidden-layers."
            )
        if self.backend not in ("auto", "torch"):
            check_backends((self.backend,))
        require_at_least("importance_batches", self.importance_batches, 1)
        require_at_least("rounds", self.rounds, 1)
        if self.unstructured:
            self._check_unstructured()

    def _check_unstructured(self) -> None:
        """Refuse what has no meaning for single weights."""
        if self.sparsity is None:
            raise InputError("--unstructured needs --sparsity, the part of the weights to zero.")
        if self.importance == "taylor":
            raise InputError("--unstructured takes --importance magnitude or movement, got taylor.")
        if self.importance == "movement" and not self.num_train_epochs:
            raise InputError(
                "--unstructured learns --importance movement in the recovery, so "
                "num_train_epochs must be 1 or more, got 0."
            )
        if self.backend not in ("auto", "torch"):
            raise InputError(
                f"--unstructured is timed on torch alone, got --backend {self.backend}; leave it "
                "out."
            )
        for name, default in (
            ("units", "all"),
            ("rounds", 1),
            ("eval_steps", None),
            ("early_stopping_patience", None),
        ):
            if getattr(self, name) != default:
                raise InputError(
                    f"{flag(name)} has no say with --unstructured, whose zeros grow step by step "
                    "and whose last weights count; leave it out."
                )


def parse_size(text: str, *, name: str = "target_size") -> int:
    """Read a number of bytes, like ``8MB``, ``800 kB`` or ``8000000``; 1 MB is 10**6 bytes.

    Args:
        text: The number and its unit.
        name: Of the setting, for the error.

    Raises:
        InputError: It is none, or not above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMG]?B)?\s*", text)
    size = int(float(match[1]) * _BYTES[(match[2] or "B").upper()]) if match else 0
    if size < 1:
        raise InputError(
            f"{name} must be a number of bytes above 0, like 8MB, 800kB or 8000000, got {text!r}."
        )
    return size
