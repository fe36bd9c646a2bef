"""What a worker does: it opens the bundle as the process that called it did, and runs blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from edgebert.errors import BackendError, BackendUnavailableError, EdgeBertError, InputError
from edgebert.features.entries import Identity
from edgebert.features.model import Embedded, Model
from edgebert.features.rows import Row
from edgebert.features.settings import Engine
from edgebert.features.summary import Clock
from edgebert.runtime import Runtime


@dataclass(frozen=True)
class Job:
    """What every worker opens.

    Attributes:
        bundle: Its directory.
        engine: How it's opened.
        identity: Of the vectors that are made.
    """

    bundle: Path
    engine: Engine
    identity: Identity

    def open(self) -> Model:
        """Open the bundle.

        Raises:
            InputError: It makes other vectors here.
        """
        model = Model.like(Runtime(self.bundle, **asdict(self.engine)), self.identity)
        if model.identity != self.identity:
            raise InputError(
                f"{self.bundle} is another bundle for this worker than for the process that began "
                "the run; put the same one there on every machine."
            )
        return model


@dataclass(frozen=True)
class Answer:
    """What a worker made of a block.

    Attributes:
        embedded: Its vectors; None when it failed.
        seconds: Of each stage.
        kind: Of the error; it goes with its text, as an error may not live through being sent.
        why: Its text.
    """

    embedded: Embedded | None = None
    seconds: Mapping[str, float] | None = None
    kind: type[EdgeBertError] = EdgeBertError
    why: str = ""

    @classmethod
    def of(cls, error: EdgeBertError) -> Answer:
        """Tell of an error."""
        unavailable = isinstance(error, BackendUnavailableError)  # it can't be made of a text
        return cls(kind=BackendError if unavailable else type(error), why=str(error))

    def unpack(self) -> tuple[Embedded, Mapping[str, float]]:
        """Give what `edgebert.features.team.Remote.embed` gives, or raise the error."""
        if self.embedded is None:
            raise self.kind(self.why)
        return self.embedded, self.seconds or {}


def answer(model: Model, rows: list[Row]) -> Answer:
    """Run a block.

    Errors other than ours end the worker, and with it perhaps what is wrong.
    """
    clock = Clock()
    try:
        with clock.of("tokenize"):
            prepared = model.prepare(rows)
        with clock.of("run"):
            embedded = model.embed(prepared)
    except EdgeBertError as error:
        return Answer.of(error)
    return Answer(embedded, clock.read())
