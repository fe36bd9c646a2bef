"""A student's architecture: a few numbers, and the configuration that they make."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgebert.errors import InputError
from edgebert.formats.positions import max_positions

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

SHARED_BERT = "edgebert-shared-bert"  # model type of one of ours, see compress.models.shared_bert


@dataclass(frozen=True)
class Architecture:
    """The numbers that make an encoder: four, and two more of one that is stored as an ALBERT.

    Attributes:
        num_hidden_layers: ``L``; 0 of a static student, see `compress.models.static_student`.
        hidden_size: ``H``, a multiple of the heads.
        num_attention_heads: ``A``.
        intermediate_size: ``I``, the width of the feed-forward part.
        embedding_size: ``E``, the width of the embedding tables; None for ``H``.
        num_hidden_groups: ``G``, sets of weights that the layers share; None for one a layer.
    """

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    embedding_size: int | None = None
    num_hidden_groups: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value < (name != "num_hidden_layers"):
                raise InputError(f"A student's {name} must be 1 or more, got {value}.")
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"A student's hidden_size {self.hidden_size} must be a multiple of its "
                f"{self.num_attention_heads} heads; change H or A."
            )
        if not 2 <= (self.embedding_size or 2) <= self.hidden_size:
            raise InputError(
                f"A student's embedding_size must be from 2 to its hidden_size {self.hidden_size}, "
                f"got {self.embedding_size}; change E, or leave it out."
            )
        if self.num_hidden_layers % (self.num_hidden_groups or 1):
            raise InputError(
                f"A student's num_hidden_groups must be a divisor of its {self.num_hidden_layers} "
                f"layers, got {self.num_hidden_groups}; change G or L."
            )

    @property
    def static(self) -> bool:
        """Whether it has no layers, only a vector for each token."""
        return self.num_hidden_layers == 0

    @property
    def shares(self) -> bool:
        """Whether it is stored as an ALBERT, the form that transformers has for ``E`` and ``G``."""
        return self.embedding_size is not None or self.num_hidden_groups is not None

    def __str__(self) -> str:
        """Write it as `parse_student` reads it."""
        if self.static:
            return f"static-{self.hidden_size}d"
        numbers = {letter: getattr(self, name) for letter, name in LETTERS.items()}
        return ",".join(f"{letter}={one}" for letter, one in numbers.items() if one is not None)


PRESETS = {
    "tinybert-4l-312d": Architecture(4, 312, 12, 1200),
    "tinybert-6l-768d": Architecture(6, 768, 12, 3072),
    "distilbert-6l-768d": Architecture(6, 768, 12, 3072),
    "minilm-6l-384d": Architecture(6, 384, 12, 1536),
    "minilm-3l-384d": Architecture(3, 384, 12, 1536),
    "mini-2l-128d": Architecture(2, 128, 2, 512),
}
STATIC = "static-256d"  # or any other width
STATIC_NORM = 2.0**15  # of a LayerNorm that does nothing: its scale, and the root of its eps
PRUNED_HEADS = "edgebert_pruned_heads"  # in config.json: numbers of heads, from 0, by layer, from 0
LETTERS = {
    "L": "num_hidden_layers",
    "H": "hidden_size",
    "A": "num_attention_heads",
    "I": "intermediate_size",
    "E": "embedding_size",
    "G": "num_hidden_groups",
}


def static_size(text: str) -> int | None:
    """Read the width of a static student out of its name; None for any other student.

    Raises:
        InputError: It is below 2.
    """
    match = re.fullmatch(r"static-(\d+)d", text)
    if match is None:
        return None
    if int(match[1]) < 2:
        raise InputError(f"A static student's width must be 2 or more, got {text!r}.")
    return int(match[1])


def parse_student(text: str, teacher_config: PreTrainedConfig) -> Architecture:
    """Read a preset's name, or numbers like ``L=4,H=312,A=12,I=1200``.

    Args:
        text: Numbers that are not given are the teacher's: ``L=3`` only drops layers. ``E`` and
            ``G`` are for students that share, see `Architecture`.
        teacher_config: Gives them.

    Raises:
        InputError: Neither a preset nor such numbers.
    """
    if text in PRESETS:
        return PRESETS[text]
    if (size := static_size(text)) is not None:
        return Architecture(0, size, 1, size)
    numbers: dict[str, int] = architecture_of(teacher_config)
    for part in text.split(","):
        match = re.fullmatch(r"\s*([LHAIEG])\s*=\s*(\d+)\s*", part)
        if match is None:
            raise InputError(
                f"Unknown student {text!r}. Give one of {', '.join(PRESETS)}, {STATIC}, or numbers "
                "like L=4,H=312,A=12,I=1200 (layers, hidden size, heads, intermediate size), and "
                "E=64 (embedding size) or G=1 (sets of weights that the layers share) where they "
                "differ."
            )
        numbers[LETTERS[match[1]]] = int(match[2])
    if numbers["num_hidden_layers"] == 0:
        raise InputError(
            f"A student's num_hidden_layers must be 1 or more, got 0; one without layers is "
            f"{STATIC}, of any width."
        )
    return Architecture(**numbers)


def architecture_of(config: PreTrainedConfig) -> dict[str, int]:
    """Read the four numbers of `Architecture` from a configuration of any family."""
    numbers = {name: int(getattr(config, name)) for name in list(LETTERS.values())[:3]}
    return {**numbers, "intermediate_size": int(getattr(config, intermediate_name(config)))}


def intermediate_name(config: PreTrainedConfig) -> str:
    """Name the one size that DistilBERT's configuration has under a word of its own."""
    return "hidden_dim" if config.model_type == "distilbert" else "intermediate_size"


def student_config(
    architecture: Architecture, teacher_config: PreTrainedConfig
) -> PreTrainedConfig:
    """Make a student's configuration: the teacher's family, vocabulary and labels, other sizes.

    A factorised embedding (ELECTRA, ALBERT) keeps its width. A static student is always a BERT, and
    so is that of a BERT whose layers share a part.

    Raises:
        InputError: A MobileBERT student of another width; its bottlenecks have no such sizes. A
            static student that is wider than its teacher.
    """
    if architecture.static:
        return _static_config(architecture.hidden_size, teacher_config)
    widths = ("hidden_size", "num_attention_heads", "intermediate_size")
    teacher = architecture_of(teacher_config)
    if teacher_config.model_type == "mobilebert" and any(
        getattr(architecture, name) != teacher[name] for name in widths
    ):
        raise InputError(
            f"A MobileBERT student can only drop layers, so {architecture} won't do; "
            f"give --student L={architecture.num_hidden_layers}."
        )
    config = copy.deepcopy(teacher_config)
    if config.model_type == SHARED_BERT:
        from compress.models.shared_bert import unshared_config

        config = unshared_config(config)
    for name in ("num_hidden_layers", *widths[:2]):
        setattr(config, name, getattr(architecture, name))
    setattr(config, intermediate_name(config), architecture.intermediate_size)
    for name in ("embedding_size", "pooler_hidden_size"):
        if getattr(config, name, None) == teacher["hidden_size"]:
            setattr(config, name, architecture.hidden_size)
    config.name_or_path = ""
    if hasattr(config, PRUNED_HEADS):  # the student's own layers have all of theirs
        delattr(config, PRUNED_HEADS)
    return config


def _static_config(size: int, teacher_config: PreTrainedConfig) -> PreTrainedConfig:
    from transformers import BertConfig

    if size > teacher_config.hidden_size:
        raise InputError(
            "A static student has at most the width of its teacher's vectors, "
            f"{teacher_config.hidden_size}, got {size}; use --student "
            f"static-{teacher_config.hidden_size}d."
        )
    settings = teacher_config.to_dict()
    return BertConfig(
        vocab_size=teacher_config.vocab_size,
        hidden_size=size,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=size,
        max_position_embeddings=max_positions(settings) or BertConfig().max_position_embeddings,
        type_vocab_size=settings.get("type_vocab_size") or 1,
        layer_norm_eps=STATIC_NORM**2,
        pad_token_id=teacher_config.pad_token_id,
    )
