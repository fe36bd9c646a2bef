"""The settings of ``compress.share``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from compress.options import option
from compress.settings import TrainingConfig, require_at_least
from edgebert.errors import InputError

Shared = Literal["all", "attention", "ffn"]


@dataclass(frozen=True, kw_only=True)
class ShareConfig(TrainingConfig):
    """Let layers share weights and factorise embeddings, as ALBERT does: fewer bytes, same time."""

    least_epochs: ClassVar[int] = 0

    model: str = option(help="Alias (--list-teachers), checkpoint, bundle or hub id")
    teacher_labels: str | None = option(
        None, help="Names of the logits in order, comma-separated, where the model has none"
    )
    num_hidden_groups: int | None = option(
        None,
        help="How many sets of weights the layers share; neighbouring layers have one (default: "
        "each layer its own)",
    )
    share: Shared = option(
        "all",
        help="What the layers of a group share: all, or of a BERT attention or ffn alone, which "
        "transformers opens after `import compress.models.shared_bert`",
    )
    embedding_size: int | None = option(
        None, help="Width of the embedding tables, below the hidden size (default: as they are)"
    )
    num_train_epochs: int = option(
        2,
        help="Recovery: passes over the train rows in which the shared model imitates the one that "
        "was given; 0 for none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share != "all" and (self.num_hidden_groups is None or self.embedding_size):
            raise InputError(
                f"--share {self.share} takes --num-hidden-groups and no --embedding-size: narrower "
                "tables come with an ALBERT, whose layers share all."
            )
        if self.num_hidden_groups is None and self.embedding_size is None:
            raise InputError(
                "Give --num-hidden-groups, --embedding-size or both; else nothing is shared."
            )
        for name, least in (("num_hidden_groups", 1), ("embedding_size", 2)):
            if getattr(self, name) is not None:
                require_at_least(name, getattr(self, name), least)
        if self.embedding_size is not None and self.task == "fill-mask":
            raise InputError(
                "--embedding-size can't be had with --task fill-mask: the head multiplies by the "
                "same table, behind a layer of its own that has no smaller form. Share layers "
                "alone with --num-hidden-groups, or take the encoder: --task feature-extraction."
            )
