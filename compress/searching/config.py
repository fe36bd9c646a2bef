"""The settings of ``compress.search``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from compress.distillation.config import DistillConfig
from compress.options import flag, option
from compress.pruning.config import parse_size
from compress.searching.budget import Budget
from compress.settings import require_at_least
from edgebert.errors import InputError

_LIMITS = ("max_drop", "max_size", "max_latency")
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True, kw_only=True)
class SearchConfig(DistillConfig):
    """Find the student that makes the most of a budget, and ship it as a verified bundle."""

    output_dir: Path = option(Path("found"), help="Where the bundle goes")
    max_drop: float | None = option(
        None, help="Most of the teacher's dev score that may go, as a part of it: 0.01 keeps 99 %"
    )
    max_size: str | None = option(None, help="Most bytes of the artifact, like 8MB")
    max_latency: str | None = option(
        None, help="Longest median time of one text of 32 tokens on the engine, like 3ms"
    )
    student: str = option(
        "auto",
        help="Shapes to try, joined by semicolons, like 'L=3;L=2,H=128,A=4,I=512' (default auto: "
        "depth, width, neurons, embedding width and shared layers are searched)",
    )
    vocab_size: tuple[int, ...] = option(
        (),
        help="Most tokens of a vocabulary to try, repeatable; what the train rows use most is kept "
        "(default: the teacher's, all that train uses, and a half of these)",
    )
    num_trials: int = option(40, help="Most students that get a short training")
    time_limit: float = option(90.0, help="Minutes that the whole may take")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in _LIMITS if getattr(self, name) is not None]
        if len(given) != 2:
            got = " and ".join(flag(name) for name in given) or "none"
            raise InputError(
                f"Give exactly two of {', '.join(flag(name) for name in _LIMITS)}: what the third "
                f"one limits is then made the best it can be; got {got if len(given) < 3 else 3}."
            )
        if self.max_drop is not None and not 0 <= self.max_drop < 1:
            raise InputError(f"max_drop must be from 0 to below 1, got {self.max_drop}.")
        if len(self.backend) > 1:
            raise InputError(
                f"A search is for one engine, got --backend {' and '.join(self.backend)}; give one."
            )
        if self.extra_teacher:
            raise InputError(
                "--extra-teacher can't be had in a search; search with one teacher, then distill "
                "the found shape from several."
            )
        if self.makes_exits:
            raise InputError(
                "--early-exit and --layerdrop can't be had in a search, which times whole models; "
                "distill the found shape with exits."
            )
        require_at_least("num_trials", self.num_trials, 1)
        for size in self.vocab_size:
            require_at_least("vocab_size", size, 1)
        if not 0 < self.time_limit < math.inf:
            raise InputError(f"time_limit must be minutes above 0, got {self.time_limit}.")
        self.budget()  # checks the other two

    @property
    def engine(self) -> str:
        """Name of the backend that is searched for."""
        return self.backend[0] if self.backend else "onnx"

    def budget(self) -> Budget:
        """Read the limits.

        Raises:
            InputError: One of them is no size or no time.
        """
        return Budget(
            max_drop=self.max_drop,
            max_size_bytes=None if self.max_size is None else _size(self.max_size),
            max_latency_ms=None if self.max_latency is None else parse_latency(self.max_latency),
        )


def _size(text: str) -> int:
    return parse_size(text, name="max_size")


def parse_latency(text: str) -> float:
    """Read a time in milliseconds, like ``3ms``, ``800us``, ``0.5 s`` or ``3``.

    Raises:
        InputError: It is none, or not above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s)?\s*", text)
    value = float(match[1]) * _MS[match[2] or "ms"] if match else 0.0
    if value <= 0:
        raise InputError(f"max_latency must be a time above 0, like 3ms or 800us, got {text!r}.")
    return value
