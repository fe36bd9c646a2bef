"""A phase of distillation: named loss terms, what they look at, and the projections they train."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor, nn

from compress.models.capture import Features, Pooling, Wanted
from edgebert.errors import InputError

Loss: TypeAlias = Callable[[Features, Features, Mapping[str, Tensor]], Tensor]
NOTHING = Wanted(logits=False)
LOGITS = Wanted()


@dataclass(frozen=True, kw_only=True)
class Term:
    """One loss of student and teacher, with its weight and what it needs of each.

    Attributes:
        loss: Takes the student's features, the teacher's and the batch; gives a scalar.
        weight: Factor in the sum.
        student_wanted: What `loss` reads of the student's features.
        teacher_wanted: What `loss` reads of the teacher's.
    """

    loss: Loss
    weight: float = 1.0
    student_wanted: Wanted = NOTHING
    teacher_wanted: Wanted = NOTHING

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise InputError(f"A loss term's weight must be above 0 and finite, got {self.weight}.")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What is trained together, from a first step to a last.

    Attributes:
        name: ``intermediate``, ``relations``, ``prediction`` or ``embedding``.
        terms: By the names that the log and the report show.
        projections: Trained with the student and left behind with the phase; may be empty.
        reports_score: Whether the task's score means anything while this phase runs.
        note: Why it doesn't; empty where it does.
    """

    name: str
    terms: dict[str, Term]
    projections: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    reports_score: bool = True
    note: str = ""

    @property
    def student_wanted(self) -> Wanted:
        """What to capture of the student, over all terms."""
        return merge_wanted(term.student_wanted for term in self.terms.values())

    @property
    def teacher_wanted(self) -> Wanted:
        """What to capture of the teacher, over all terms."""
        return merge_wanted(term.teacher_wanted for term in self.terms.values())

    @property
    def weights(self) -> dict[str, float]:
        """Give each term's factor."""
        return {name: term.weight for name, term in self.terms.items()}

    def losses(
        self, student: Features, teacher: Features, batch: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Compute every term on one batch, in float32 even within an autocast.

        Args:
            student: With what `student_wanted` says, with gradients.
            teacher: With what `teacher_wanted` says, without.
            batch: ``attention_mask``; for terms on true labels ``labels``, as
                `compress.scoring.targets.Targets` gives them, or int64 ``[B, S]`` for hidden
                tokens; for choices ``questions``, the question of each row.

        Returns:
            Scalars, each times its weight; their sum is the loss.
        """
        with torch.autocast(batch["attention_mask"].device.type, enabled=False):
            return {
                name: term.weight * term.loss(student, teacher, batch)
                for name, term in self.terms.items()
            }


def merge_wanted(parts: Iterable[Wanted]) -> Wanted:
    """Unite what several terms want of one model.

    Raises:
        InputError: Two terms want the vectors pooled in different ways.
    """
    hidden: set[int] = set()
    relations: set[int] = set()
    pooled: set[tuple[Pooling, int]] = set()
    logits = False
    for part in parts:
        hidden |= set(part.hidden_states)
        relations |= set(part.relations)
        logits = logits or part.logits
        if part.pooled is not None:
            pooled.add((part.pooled, part.pooling_layers))
    if len(pooled) > 1:
        raise InputError(f"The terms of one phase pool in one way, not in {sorted(pooled)}.")
    pooling, layers = pooled.pop() if pooled else (None, 1)
    return Wanted(
        hidden_states=tuple(sorted(hidden)),
        relations=tuple(sorted(relations)),
        logits=logits,
        pooled=pooling,
        pooling_layers=layers,
    )
