"""The shapes that a search chooses from: numbers of a student, and how many tokens it knows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from compress.distillation.student_check import check_sharing
from compress.models.architecture import Architecture, architecture_of, parse_student
from compress.models.blocks import LAYOUTS
from compress.sharing.albert import TOKENIZERS
from edgebert.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from compress.searching.config import SearchConfig

DEEPEST = 6
WIDTHS = (64, 96, 128, 192, 256, 312, 384, 512, 768)
RATIOS = (1, 2, 4)  # neurons of a layer by its width
EMBEDDINGS = (None, 64, 128)  # None: as wide as the layers
GROUPS = (None, 1, 2)  # None: each layer its own weights
KINDS = "LHIEG"  # the dimensions that make an architecture, in Architecture's letters


@dataclass(frozen=True)
class Shape:
    """A student before it is there.

    Attributes:
        architecture: Its numbers.
        vocab_size: Tokens that it knows.
    """

    architecture: Architecture
    vocab_size: int

    def __str__(self) -> str:
        """Write it like ``L=4,H=256,A=8,I=1024,V=8000``."""
        return f"{self.architecture},V={self.vocab_size}"

    @property
    def runs_like(self) -> str:
        """Name all that decides its speed: a text looks up as many tokens in any vocabulary."""
        return str(self.architecture)

    def no_faster_than(self, other: Shape) -> bool:
        """Whether it computes all that another one does, or more."""
        ours, theirs = self.architecture, other.architecture
        names = ("num_hidden_layers", "hidden_size", "intermediate_size")
        return all(getattr(ours, name) >= getattr(theirs, name) for name in names)


@dataclass(frozen=True)
class Space:
    """What can be chosen: a few dimensions, each with its values in order.

    Attributes:
        dimensions: Values by name: ``L``, ``H``, ``I`` (neurons by width), ``E``, ``G`` and ``V``;
            or ``student`` and ``V`` where shapes are given.
        teacher: Its four numbers; no student has more heads.
    """

    dimensions: Mapping[str, tuple[Any, ...]]
    teacher: Mapping[str, int] = field(default_factory=dict)

    def shape(self, places: Mapping[str, int]) -> Shape | None:
        """Make the shape at some places, by dimension; None where these numbers make none."""
        values = {name: self.dimensions[name][place] for name, place in places.items()}
        if "student" in values:
            return Shape(values["student"], values["V"])
        layers, width = values["L"], values["H"]
        embedding, groups = values.get("E"), values.get("G")
        if embedding is not None and embedding >= width:
            return None
        if groups is not None and (groups >= layers or layers % groups):
            return None
        architecture = Architecture(
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=heads_for(width, self.teacher),
            intermediate_size=values["I"] * width,
            embedding_size=embedding,
            num_hidden_groups=groups,
        )
        return Shape(architecture, values["V"])

    def places(self) -> Iterator[dict[str, int]]:
        """Give all places, also those without a shape."""
        for one in itertools.product(*(range(len(v)) for v in self.dimensions.values())):
            yield dict(zip(self.dimensions, one, strict=True))

    @cached_property
    def size(self) -> int:
        """Count the shapes."""
        return sum(self.shape(places) is not None for places in self.places())


def heads_for(width: int, teacher: Mapping[str, int]) -> int:
    """Choose the most heads that divide a width and aren't narrower than the teacher's.

    Args:
        width: Of the student.
        teacher: Its numbers.
    """
    most = teacher["num_attention_heads"]
    wanted = max(1, width * most // teacher["hidden_size"])
    return next(n for n in range(min(wanted, most), 0, -1) if width % n == 0)


def make_space(
    config: SearchConfig, theirs: PreTrainedConfig, vocab_sizes: tuple[int, ...]
) -> Space:
    """Say which shapes can be had of a teacher.

    Args:
        config: The settings.
        theirs: The teacher's configuration.
        vocab_sizes: Rising.

    Raises:
        InputError: A shape that is asked for can't be had.
    """
    teacher = architecture_of(theirs)
    if config.student != "auto":
        given = [parse_student(text, theirs) for text in config.student.split(";")]
        for one in given:
            check_sharing(one, theirs, config.task)
        return Space({"student": tuple(dict.fromkeys(given)), "V": vocab_sizes}, teacher)
    deepest, width = min(DEEPEST, teacher["num_hidden_layers"]), teacher["hidden_size"]
    dimensions: dict[str, tuple[Any, ...]] = {"L": tuple(range(1, deepest + 1))}
    if theirs.model_type not in LAYOUTS:  # no narrower start can be had of it
        given = [parse_student(f"L={layers}", theirs) for layers in dimensions["L"]]
        return Space({"student": tuple(given), "V": vocab_sizes}, teacher)
    dimensions["H"] = tuple(sorted({*(w for w in WIDTHS if w < width), width // 2, width}))
    most = max(1, teacher["intermediate_size"] // width)
    dimensions["I"] = tuple(ratio for ratio in RATIOS if ratio <= most)
    if theirs.model_type in TOKENIZERS:
        dimensions["G"] = GROUPS
        if config.task != "fill-mask":
            dimensions["E"] = EMBEDDINGS
    return Space({**dimensions, "V": vocab_sizes}, teacher)


def require_shapes(space: Space) -> None:
    """Raise an `InputError` where there is nothing to choose from."""
    if not space.size:
        raise InputError("No shape can be had of this teacher; give --student, like L=2,H=128.")
