"""What a manifest says of a model that texts may leave early."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgebert.errors import ManifestError
from edgebert.formats.manifest import Artifact, FileRecord
from edgebert.formats.records import in_span

MAX_SEGMENTS = 96


@dataclass(frozen=True, kw_only=True)
class ExitArtifact(Artifact):
    """A model cut behind each of its layers, for one engine.

    Its ``golden`` holds, of each text, the logits of every exit behind each other.

    Attributes:
        segments: The file of each layer that the engine opens, among ``files``, in their order,
            each followed by those that belong to it. The first takes token ids and the others what
            the one before gave; every one gives the logits of its exit.
        threshold: A text leaves at the first exit whose entropy is below it, 0 to 1; calibrated on
            dev to the budget.
        mean_layers: That a text of dev then went through.
    """

    segments: tuple[str, ...]
    threshold: float
    mean_layers: float

    def __post_init__(self) -> None:
        super().__post_init__()
        in_span("number of segments", len(self.segments), 1, MAX_SEGMENTS)
        paths = [file.path for file in self.files]
        if paths[0] != self.segments[0] or tuple(
            path for path in paths if path in self.segments
        ) != (self.segments):
            raise ManifestError(
                f"segments of {self.backend}/{self.precision} must be among its files, in their "
                f"order, the first file first: {list(self.segments)!r:.200}."
            )
        in_span("threshold", self.threshold, 0, 1)
        in_span("mean_layers", self.mean_layers, 1, len(self.segments))

    @property
    def main_files(self) -> tuple[str, ...]:
        """The files that an engine opens."""
        return self.segments

    @property
    def num_hidden_layers(self) -> int:
        """How many layers, so segments and exits, there are."""
        return len(self.segments)

    def segment(self, number: int) -> Artifact:
        """Give one segment, from 0, as an artifact of its own, without golden outputs."""
        chosen = self.segments[number]
        return replace(self, files=self._files_of((chosen,)), segments=(chosen,), mean_layers=1)

    def cut(self, layers: int) -> ExitArtifact:
        """Give the first layers alone, with the golden outputs of their exits."""
        every, kept = len(self.segments), self.segments[:layers]
        return replace(
            self,
            files=self._files_of(kept),
            segments=kept,
            golden=tuple(row[: len(row) * layers // every] for row in self.golden),
            mean_layers=min(self.mean_layers, layers),
        )

    def _files_of(self, segments: tuple[str, ...]) -> tuple[FileRecord, ...]:
        kept, owner = [], ""
        for file in self.files:
            owner = file.path if file.path in self.segments else owner
            if owner in segments:
                kept.append(file)
        return tuple(kept)


@dataclass(frozen=True, kw_only=True)
class EarlyExit:
    """That a model has exits, and what leaving by them may cost.

    Attributes:
        budget: Part of the metric on dev, of the same artifact through all layers, that thresholds
            may cost, 0 to 1.
        metric: Its name.
        artifacts: Of every engine and precision that passed its gate.
    """

    budget: float
    metric: str
    artifacts: tuple[ExitArtifact, ...]

    def __post_init__(self) -> None:
        in_span("budget", self.budget, 0, 1)
        layers = {item.num_hidden_layers for item in self.artifacts}
        if len(layers) != 1:
            raise ManifestError(
                f"early_exit needs artifacts of one number of layers, not of {sorted(layers)}."
            )

    @property
    def num_hidden_layers(self) -> int:
        """How many layers there are."""
        return self.artifacts[0].num_hidden_layers
