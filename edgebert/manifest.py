"""``edgebert.json``: what a bundle holds, checked once when it is read.

Past `Manifest.load` the rest of the code trusts what the manifest says.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from edgebert.errors import ManifestError
from edgebert.files import sha256_file, write_json

FORMAT_VERSION = 2
MANIFEST_NAME = "edgebert.json"
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
PRECISIONS = ("fp32", "int8")
ON_LONG = ("error", "truncate", "window")

T = TypeVar("T")


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
        path = PurePosixPath(self.path)
        if not self.path or path.is_absolute() or ".." in path.parts or "\\" in self.path:
            raise ManifestError(f"File path {self.path!r} leaves the bundle.")
        if re.match(r"^[A-Za-z]:", self.path):
            raise ManifestError(f"File path {self.path!r} leaves the bundle.")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ManifestError(f"File {self.path!r} has no valid sha256: {self.sha256!r}.")
        if self.size_bytes < 0:
            raise ManifestError(f"File {self.path!r} has size_bytes {self.size_bytes}.")

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
        precision: ``fp32`` or ``int8``.
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
        if self.precision not in PRECISIONS:
            raise ManifestError(f"Unknown precision {self.precision!r}; allowed: {PRECISIONS}.")
        if not self.files:
            raise ManifestError(f"Artifact {self.backend}/{self.precision} lists no files.")
        if not self.tolerance > 0:
            raise ManifestError(f"Artifact {self.files[0].path} has tolerance {self.tolerance}.")

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
        pairs: Whether the model was trained on pairs of texts.
        max_length: Longest input in tokens, special tokens included.
        hidden_size: Width of the last hidden state.
        pooling: One of `POOLINGS` for ``feature-extraction``, else None.
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
        max_answer_length: For ``question-answering``: most tokens of an answer.
        int8_scale: For ``dtype="int8"`` vectors: one scale per dimension, or None.
        files: Files that every artifact needs: tokenizer and configuration.
        artifacts: What can be run.
        golden: See `Golden`.
        lineage: One entry a step, oldest first: config, seed, data hashes, versions.
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
    pairs: bool = False
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
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        _one_of("task", self.task, TASKS)
        _one_of("on_long", self.on_long, ON_LONG)
        if self.task == "text-classification":
            _one_of("problem_type", self.problem_type, PROBLEM_TYPES)
        if self.task in ("text-classification", "token-classification") and (
            len(self.labels) < 2 or len(set(self.labels)) != len(self.labels)
        ):
            raise ManifestError(f"labels must be two or more distinct names: {self.labels}.")
        if self.task == "feature-extraction":
            _one_of("pooling", self.pooling, POOLINGS)
        for name in ("max_length", "hidden_size"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise ManifestError(f"{name} is {getattr(self, name)}; it must be above 0.")
        if "pad_token_id" not in self.special_ids:
            raise ManifestError("special_ids has no pad_token_id.")
        if not self.artifacts:
            raise ManifestError("The bundle has no artifact, so nothing can be run.")

    @classmethod
    def load(cls, bundle: Path) -> Manifest:
        """Read and check a bundle's manifest.

        Raises:
            ManifestError: It is missing, not JSON, of a newer format, or a field is missing,
                unknown, of the wrong type or not allowed.
        """
        source = bundle / MANIFEST_NAME
        try:
            data = json.loads(source.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ManifestError(
                f"{bundle} is not a bundle: it has no {MANIFEST_NAME}. Make one with "
                f"`python -m compress.export --model {bundle} --output-dir OUT`."
            ) from error
        except (ValueError, OSError, RecursionError) as error:
            raise ManifestError(f"{source} can't be read as JSON ({error}).") from error
        if not isinstance(data, dict):
            raise ManifestError(f"{source} holds no JSON object.")
        version = data.get("format_version")
        if type(version) is not int or version < 1:
            raise ManifestError(f"{source} has format_version {version!r}, not a number from 1.")
        if version > FORMAT_VERSION:
            raise ManifestError(
                f"{source} has format_version {version}; this edgebert reads up to "
                f"{FORMAT_VERSION}. Install a newer one: pip install -U edgebert"
            )
        try:
            return _build_manifest(data)
        except ManifestError as error:
            raise ManifestError(f"{source}: {error}") from error
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ManifestError(f"{source} has a field of the wrong form ({error}).") from error

    @property
    def vector_size(self) -> int:
        """Dimensions of a text's vector."""
        return self.embedding_size or self.hidden_size

    def save(self, bundle: Path) -> None:
        """Write ``edgebert.json`` whole."""
        write_json(bundle / MANIFEST_NAME, asdict(self))


def _build_manifest(data: dict[str, Any]) -> Manifest:
    values = dict(_known(Manifest, data))
    values["files"] = tuple(_build(FileRecord, item) for item in values["files"])
    values["artifacts"] = tuple(_build_artifact(item) for item in values["artifacts"])
    golden = _known(Golden, values["golden"])
    pairs = golden.get("text_pairs")
    values["golden"] = Golden(
        texts=tuple(map(str, golden["texts"])),
        text_pairs=None if pairs is None else tuple(map(str, pairs)),
        input_ids=tuple(tuple(map(int, ids)) for ids in golden["input_ids"]),
    )
    values["labels"] = tuple(map(str, values.get("labels", ())))
    values["lineage"] = tuple(values.get("lineage", ()))
    if values.get("int8_scale") is not None:
        values["int8_scale"] = tuple(map(float, values["int8_scale"]))
    return _checked(Manifest, values)


def _build_artifact(data: Any) -> Artifact:
    values = dict(_known(Artifact, data))
    values["files"] = tuple(_build(FileRecord, item) for item in values["files"])
    values["golden"] = tuple(tuple(map(float, row)) for row in values["golden"])
    return _checked(Artifact, values)


def _build(kind: type[T], data: Any) -> T:
    return _checked(kind, _known(kind, data))


_SIMPLE: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, int]": (dict,),
    "dict[str, str]": (dict,),
}


def _checked(kind: type[T], values: dict[str, Any]) -> T:
    for item in fields(kind):  # type: ignore[arg-type]
        expected = _SIMPLE.get(str(item.type))
        if expected is None or item.name not in values:
            continue
        value = values[item.name]
        if not isinstance(value, expected) or (isinstance(value, bool) and item.type != "bool"):
            raise ManifestError(f"{item.name} must be {item.type}, not {value!r:.80}.")
    return kind(**values)


def _known(kind: type[Any], data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ManifestError(f"{kind.__name__} must be a JSON object, not {data!r:.80}.")
    unknown = set(data) - {item.name for item in fields(kind)}
    if unknown:
        raise ManifestError(f"{kind.__name__} has unknown fields {sorted(unknown)}.")
    return data


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ManifestError(f"{name} is {value!r}; allowed: {', '.join(allowed)}.")
