"""``app.json`` and ``golden.json``: what an app without Python must know of a bundle.

``app.json``::

    {"format": "edgebert-app", "format_version": 1,
     "target": "android", "engine": "tflite",
     "task": "text-classification", "labels": ["bad", "good"], "problem_type": …, "pairs": false,
     "max_length": 128, "prompts": {"query": "…"},
     "pooling": "mean" or null, "normalize": true, "vector_size": 384,
     "tokenizer": {"vocab": "vocab.txt", "characters": "characters.txt", "pad_id": 0, "unk_id": 100,
                   "prefix": "##", "max_chars": 100, "single": [{"id": 101, "type": 0},
                   {"text": 0, "type": 0}, {"id": 102, "type": 0}], "pair": […]},
     "model": {"file": "model.tflite", "backend": "tflite", "precision": "int8", "sha256": "…",
               "size_bytes": 1, "min_engine": "ai-edge-litert 2.1",
               "inputs": [{"name": "input_ids", "dtype": "int32", "shape": [1, "length"]}, …],
               "outputs": [{"name": "logits", "dtype": "float32", "shape": [1, 2]}],
               "signatures": [{"key": "s32", "length": 32}, …]}}

A text is its prompt and itself; ``single`` or ``pair`` says what is put around its tokens. A
longer text is cut from its end to ``max_length``; of a pair, the longer text first. ``signatures``
is there for TFLite: the first that holds a text is run, padded with ``pad_id`` and a mask of 0.
What is padded has no say in anything.

``golden.json``: ``texts``, ``text_pairs`` (or null), their ``input_ids``, and ``outputs``, one flat
row a text: the vector, of unit length where ``normalize`` says so, or the logits. None is off by
more than ``tolerance`` on the machine where the bundle was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgebert.apps.wordpiece import WordPieceFiles
from edgebert.errors import InputError
from edgebert.formats.manifest import Artifact, Manifest
from edgebert.pooling import SENTENCE
from edgebert.types import FloatArray

APP_NAME, GOLDEN_NAME, VOCAB_NAME = "app.json", "golden.json", "vocab.txt"
CHARACTERS_NAME = "characters.txt"
TASKS = ("feature-extraction", "text-classification", "regression")


@dataclass(frozen=True, kw_only=True)
class Ports:
    """What an opened artifact takes and gives.

    Attributes:
        inputs: Names.
        outputs: One text's, by name, float32 ``[1, …]``.
        length: Tokens of that text.
        signatures: Of a TFLite file: key and length, the shortest first; else none.
    """

    inputs: Sequence[str]
    outputs: Mapping[str, FloatArray]
    length: int
    signatures: Sequence[tuple[str, int]] = ()


def check_task(manifest: Manifest, source: object) -> None:
    """Refuse a task that the sample code has no end for, and a bundle without golden outputs.

    Raises:
        InputError: With those that it can do.
    """
    if manifest.task not in TASKS:
        raise InputError(
            f"{source} is for {manifest.task}; the sample code of an app can do "
            f"{', '.join(TASKS)}. `edgebert slim` copies the bundle for your own code."
        )
    if not manifest.verified:
        raise InputError(
            f"{source} has no golden outputs, so an app couldn't test itself. Make a bundle of it: "
            f"python -m compress.export --model {source} --output-dir OUT."
        )


def app_json(
    manifest: Manifest, artifact: Artifact, ports: Ports, words: WordPieceFiles, *, target: str
) -> dict[str, Any]:
    """Put together what the module's docstring says."""
    return {
        "format": "edgebert-app",
        "format_version": 1,
        "target": target,
        "engine": artifact.backend,
        "task": manifest.task,
        "labels": list(manifest.labels),
        "problem_type": manifest.problem_type,
        "pairs": bool(manifest.pairs),
        "max_length": manifest.max_length,
        "prompts": dict(manifest.prompts),
        "pooling": None if SENTENCE in ports.outputs else manifest.pooling,
        "normalize": manifest.normalize,
        "vector_size": manifest.vector_size if manifest.task == TASKS[0] else None,
        "tokenizer": {
            "vocab": VOCAB_NAME,
            "characters": CHARACTERS_NAME,
            "pad_id": manifest.special_ids["pad_token_id"],
            **words.settings,
        },
        "model": _model(artifact, ports),
    }


def golden_json(manifest: Manifest, artifact: Artifact) -> dict[str, Any]:
    """Give the golden inputs with the ids and outputs that the self-test of an app must find."""
    golden = manifest.golden
    return {
        "texts": list(golden.texts),
        "text_pairs": None if golden.text_pairs is None else list(golden.text_pairs),
        "input_ids": [list(ids) for ids in golden.input_ids],
        "outputs": [list(row) for row in artifact.golden],
        "tolerance": artifact.tolerance,
    }


def model_name(artifact: Artifact) -> str:
    """Name the model's file in an app: ``model.onnx``, ``model.tflite``.

    Raises:
        InputError: The artifact is more than one file.
    """
    if len(artifact.files) != 1:
        names = ", ".join(file.path for file in artifact.files)
        raise InputError(f"An app takes a model of one file; this one is {names}.")
    return f"model.{artifact.files[0].path.rpartition('.')[2]}"


def _model(artifact: Artifact, ports: Ports) -> dict[str, Any]:
    fixed = artifact.backend == "tflite"
    file = artifact.files[0]
    kind = "int32" if fixed else "int64"
    shape: list[int | str] = [1, "length"] if fixed else ["batch", "length"]
    return {
        "file": model_name(artifact),
        "backend": artifact.backend,
        "precision": artifact.precision,
        "sha256": file.sha256,
        "size_bytes": file.size_bytes,
        "min_engine": artifact.min_engine,
        "inputs": [{"name": name, "dtype": kind, "shape": shape} for name in ports.inputs],
        "outputs": [
            {"name": name, "dtype": "float32", "shape": _shape(values, ports.length, shape)}
            for name, values in ports.outputs.items()
        ],
        "signatures": [{"key": key, "length": length} for key, length in ports.signatures],
    }


def _shape(values: FloatArray, length: int, inputs: list[int | str]) -> list[int | str]:
    """Name the axes that change; of two axes the last is a vector's or the labels'."""
    rest: list[int | str] = list(values.shape[1:])
    if values.ndim == 3 and rest[0] == length:
        rest[0] = "length"
    return [inputs[0], *rest]
