"""``edgebert.json``: what a bundle holds, checked once when it is read.

Past `Manifest.load` the rest of the code trusts what the manifest says.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebert.errors import ManifestError
from edgebert.files import sha256_file, write_json
from edgebert.formats.paths import check_distinct, check_path
from edgebert.formats.records import in_span, one_of

if TYPE_CHECKING:
    from edgebert.formats.exits import EarlyExit  # it needs this module

FORMAT_VERSION = 3
MANIFEST_NAME = "edgebert.json"
TOKENIZER_NAME = "tokenizer.json"
TASKS = (
    "text-classification",
    "regression",
    "token-classification",
    "question-answering",
    "multiple-choice",
    "fill-mask",
    "feature-extraction",
)
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification")
POOLINGS = ("mean", "cls", "max")
PRECISIONS = ("fp32", "int8", "int4")
ON_LONG = ("error", "truncate", "window")

MAX_TOKENS = 1 << 17  # ModernBERT takes 8,192
MAX_ANSWER_TOKENS = 512  # each token of a context is scored with so many ends at most
MAX_WIDTH = 1 << 16
MAX_LABELS = 100_000
MAX_ARTIFACTS = 64
MAX_FILES = 256
MAX_ID = 1 << 31
MAX_SIZE_BYTES = 1 << 40  # of all files together


@dataclass(frozen=True)
class FileRecord:
    """One file of the bundle.

    Attributes:
        path: Relative to the bundle, with forward slashes.
        sha256: Of the file's bytes, in hex.
        size_bytes: Of the file.
    """

    path: str
    sha256: str
    size_bytes: int

    def __post_init__(self) -> None:
        check_path(self.path)
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ManifestError(f"File {self.path!r} has no valid sha256: {self.sha256!r:.80}.")
        in_span(f"size_bytes of {self.path!r}", self.size_bytes, 0, MAX_SIZE_BYTES)

    @classmethod
    def of(cls, bundle: Path, path: str) -> FileRecord:
        """Record the file as it is now."""
        file = bundle / path
        return cls(path=path, sha256=sha256_file(file), size_bytes=file.stat().st_size)


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One form of the model that an engine can run.

    Attributes:
        backend: ``onnx``, …
        precision: ``fp32``, ``int8`` or ``int4``.
        files: All files of the artifact; the engine opens the first.
        recipe: How it was made, ``{"exporter": …, "opset": …, "quantization": …}``.
        gated_on: The CPU on which it passed its gate.
        min_engine: Oldest engine that it needs, as ``onnxruntime 1.17``.
        batch_invariant: Whether a text's result is the same beside any batch-mates.
        golden: Outputs of the golden inputs on this artifact, see `Golden`; flat, row-major.
        tolerance: Largest absolute difference from ``golden`` that the self-test accepts.
    """

    backend: str
    precision: str
    files: tuple[FileRecord, ...]
    recipe: dict[str, Any]  # free-form: each exporter says what it did
    gated_on: str
    min_engine: str
    batch_invariant: bool
    golden: tuple[tuple[float, ...], ...]
    tolerance: float

    def __post_init__(self) -> None:
        one_of("precision", self.precision, PRECISIONS)
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", self.backend):
            raise ManifestError(f"backend is {self.backend!r:.80}; it must be a name like 'onnx'.")
        if not self.files:
            raise ManifestError(f"Artifact {self.backend}/{self.precision} lists no files.")
        if not re.fullmatch(r"[a-z][a-z0-9-]* [0-9][0-9a-z.]{0,31}", self.min_engine):
            raise ManifestError(
                f"min_engine is {self.min_engine!r:.80}; it must be like 'onnxruntime 1.17'."
            )
        if not 0 < self.tolerance < float("inf"):
            raise ManifestError(f"Artifact {self.files[0].path} has tolerance {self.tolerance}.")

    @property
    def main_files(self) -> tuple[str, ...]:
        """The files that an engine opens."""
        return (self.files[0].path,)

    @property
    def size_bytes(self) -> int:
        """Size of all files together."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Inputs of known tokens and outputs: they tell a changed tokenizer and a wrong engine.

    The outputs are kept by each artifact: the logits of each text for a task with a head, the
    pooled vector (normalized if the bundle says so) for ``feature-extraction``.

    Attributes:
        texts: The inputs, each run alone.
        text_pairs: Second texts, for a bundle that takes pairs; else None.
        input_ids: Their token ids, special tokens included.
    """

    texts: tuple[str, ...]
    text_pairs: tuple[str, ...] | None
    input_ids: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A bundle's ``edgebert.json``.

    Attributes:
        task: One of `TASKS`.
        labels: Names in the order of the logits; tags like ``B-PER`` for ``token-classification``;
            empty for a task without labels.
        problem_type: One of `PROBLEM_TYPES` for ``text-classification``, else None.
        pairs: Whether the model was trained on pairs of texts; None where that isn't known and
            both are taken, see `edgebert.foreign.manifest`.
        max_length: Longest input in tokens, special tokens included.
        hidden_size: Width of the last hidden state.
        pooling: One of `POOLINGS` for ``feature-extraction``; None for other tasks, and where it
            isn't known, see `edgebert.foreign.manifest`.
        pooling_layers: How many of the last layers are averaged before they are pooled.
        embedding_size: Dimensions of a text's vector; None where it is ``hidden_size``. Another one
            comes of a Dense module behind the pooling, which is in the graph.
        normalize: Whether pooled vectors get unit length.
        prompts: Text put before an input, by role (``query``, ``document``).
        special_ids: Token ids by name (``pad_token_id``, …); ``pad_token_id`` is always there.
        on_long: Default policy for an input longer than ``max_length``.
        stride: Tokens that neighbouring windows share; None for a quarter of ``max_length``.
        no_answer_threshold: For ``question-answering``: a question has no answer when the score of
            none is above that of the best by more than this; None for a model that always answers.
        max_answer_length: For ``question-answering``: most tokens of an answer, 512 at
            most.
        int8_scale: For ``dtype="int8"`` vectors: one scale per dimension, or None.
        files: Files that every artifact needs: tokenizer and configuration.
        artifacts: What can be run.
        golden: See `Golden`.
        lineage: One entry a step, oldest first: config, seed, data hashes, versions.
        early_exit: Of a text-classification whose texts may leave it early; else None.
    """

    task: str
    max_length: int
    hidden_size: int
    special_ids: dict[str, int]
    files: tuple[FileRecord, ...]
    artifacts: tuple[Artifact, ...]
    golden: Golden
    labels: tuple[str, ...] = ()
    problem_type: str | None = None
    pairs: bool | None = False
    pooling: str | None = None
    pooling_layers: int = 1
    embedding_size: int | None = None
    normalize: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    on_long: str = "truncate"
    stride: int | None = None
    no_answer_threshold: float | None = None
    max_answer_length: int = 30
    int8_scale: tuple[float, ...] | None = None
    lineage: tuple[dict[str, Any], ...] = ()
    early_exit: EarlyExit | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        one_of("task", self.task, TASKS)
        one_of("on_long", self.on_long, ON_LONG)
        if self.task == "text-classification":
            one_of("problem_type", self.problem_type, PROBLEM_TYPES)
        if self.task == "feature-extraction" and (self.verified or self.pooling is not None):
            one_of("pooling", self.pooling, POOLINGS)
        if self.task in ("text-classification", "token-classification") and (
            len(self.labels) < 2 or len(set(self.labels)) != len(self.labels)
        ):
            raise ManifestError(f"labels must be two or more distinct names: {self.labels!r:.200}.")
        in_span("max_length", self.max_length, 1, MAX_TOKENS)
        in_span("max_answer_length", self.max_answer_length, 1, MAX_ANSWER_TOKENS)
        in_span("stride", self.stride, 0, MAX_TOKENS)
        in_span("hidden_size", self.hidden_size, 1, MAX_WIDTH)
        in_span("embedding_size", self.embedding_size, 1, MAX_WIDTH)
        in_span("pooling_layers", self.pooling_layers, 1, 1000)
        in_span("number of labels", len(self.labels), 0, MAX_LABELS)
        for name, value in self.special_ids.items():
            in_span(name, value, 0, MAX_ID)
        if "pad_token_id" not in self.special_ids:
            raise ManifestError("special_ids has no pad_token_id.")
        if self.int8_scale is not None and len(self.int8_scale) != self.vector_size:
            raise ManifestError(
                f"int8_scale has {len(self.int8_scale)} numbers, a vector {self.vector_size}."
            )
        if self.int8_scale is not None and min(self.int8_scale) <= 0:
            raise ManifestError(f"int8_scale holds {min(self.int8_scale)}; each must be above 0.")
        self._check_files()

    def _check_files(self) -> None:
        if not self.artifacts:
            raise ManifestError("The bundle has no artifact, so nothing can be run.")
        in_span("number of artifacts", len(self.artifacts), 1, MAX_ARTIFACTS)
        if self.early_exit is not None:
            one_of("problem_type", self.problem_type, PROBLEM_TYPES[:1])
        every = self.every_artifact
        files = [*self.files, *(file for item in every for file in item.files)]
        in_span("number of files", len(files), 1, MAX_FILES)
        in_span("size of all files", sum(file.size_bytes for file in files), 0, MAX_SIZE_BYTES)
        check_distinct(file.path for file in files)
        for file in files:
            if any(other.path == file.path and other != file for other in files):
                raise ManifestError(f"File {file.path!r} is listed twice, with other contents.")
        first = [path for item in every for path in item.main_files]
        if len(set(first)) < len(first):
            raise ManifestError(f"Two artifacts are the same file: {first}.")

    @classmethod
    def load(cls, bundle: Path) -> Manifest:
        """Read and check a bundle's manifest.

        Raises:
            ManifestError: It is missing, not JSON, of a newer format, or a field is missing,
                unknown, of the wrong type or not allowed.
        """
        from edgebert.formats.reading import read_manifest  # it needs this module

        return read_manifest(bundle)

    @property
    def every_artifact(self) -> tuple[Artifact, ...]:
        """The whole models, then those that are cut in segments."""
        return (*self.artifacts, *(self.early_exit.artifacts if self.early_exit else ()))

    @property
    def verified(self) -> bool:
        """Whether there are golden outputs that an artifact can be held against."""
        return bool(self.golden.texts)

    @property
    def vector_size(self) -> int:
        """Dimensions of a text's vector."""
        return self.embedding_size or self.hidden_size

    def save(self, bundle: Path) -> None:
        """Write ``edgebert.json`` whole."""
        write_json(bundle / MANIFEST_NAME, asdict(self))
