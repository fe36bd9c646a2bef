"""A bundle's files: a Hugging Face model directory, and the manifest with golden outputs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from compress.bundles.golden import int8_slack, with_golden
from compress.models.exits import save_exits
from compress.models.loading import special_token_ids
from compress.models.saving import copy_tokenizer, save_model
from compress.models.sentence_layout import SentenceLayout, write_layout
from compress.models.task_head import TaskHead
from edgebert.engines.selftest import golden_outputs
from edgebert.files import write_json
from edgebert.formats.manifest import Artifact, FileRecord, Golden, Manifest
from edgebert.tasks.vectors import INT8_MAX
from edgebert.text.tokenizer import Tokenizer
from edgebert.types import FloatArray
from runtimes.base import Backend

logger = logging.getLogger(__name__)

COMMON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
MAYBE_PAIRS = ("text-classification", "regression")  # of single texts or of pairs
ALWAYS_PAIRS = ("question-answering", "multiple-choice")
SCALE_HEADROOM = 1.25  # dev doesn't hold the largest value of each dimension; beyond it is clipped


@dataclass(frozen=True, kw_only=True)
class BundleSpec:
    """What a bundle says of itself, whatever its artifacts.

    Attributes:
        head: Task, labels, problem type, pooling, Dense, normalize.
        max_length: Longest input in tokens, special tokens included.
        stride: Tokens that neighbouring windows share; None for a quarter of ``max_length``.
        pairs: Whether inputs are pairs of texts.
        prompts: Text before an input, by role.
        lineage: Of every step, oldest first.
    """

    head: TaskHead
    max_length: int
    stride: int | None = None
    pairs: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    lineage: tuple[dict[str, Any], ...] = ()  # each step notes what it used

    @property
    def on_long(self) -> str:
        """What is done with a long text unless the caller says: an entity may stand anywhere."""
        return "window" if self.head.per_token else "truncate"


def takes_pairs(task: str, text_pairs: Sequence[str] | None) -> bool:
    """Tell whether the inputs of a task are pairs of texts, by the data where it may be either."""
    return task in ALWAYS_PAIRS or (task in MAYBE_PAIRS and text_pairs is not None)


def write_checkpoint(directory: Path, model: Any, tokenizer_dir: Path, spec: BundleSpec) -> None:
    """Write what transformers and sentence-transformers open.

    Args:
        directory: Empty.
        model: A `transformers` model; its weights become ``model.safetensors``.
        tokenizer_dir: Where its tokenizer's files are.
        spec: Labels go into ``config.json``, pooling and Dense into ``modules.json``.
    """
    config_path, head = directory / "config.json", spec.head
    save_model(model, directory)
    config = json.loads(config_path.read_text(encoding="utf-8"))
    if head.labels:
        config["id2label"] = {str(i): label for i, label in enumerate(head.labels)}
        config["label2id"] = {label: i for i, label in enumerate(head.labels)}
    if head.task in MAYBE_PAIRS:
        config["problem_type"] = head.problem_type or head.task
    write_json(config_path, config)
    _write_tokenizer(directory, tokenizer_dir, max_length=spec.max_length)
    if head.exits is not None:
        save_exits(head.exits, directory, labels=head.labels)
    if head.task == "feature-extraction":
        layout = SentenceLayout(
            pooling=head.pooling or "mean",
            normalize=head.normalize,
            pooling_layers=head.pooling_layers,
            dense=head.dense,
            max_length=spec.max_length,
            prompts=spec.prompts,
        )
        write_layout(
            directory,
            layout,
            hidden_size=model.config.hidden_size,
            num_hidden_layers=model.config.num_hidden_layers,
        )


def _write_tokenizer(directory: Path, tokenizer_dir: Path, *, max_length: int) -> None:
    copy_tokenizer(tokenizer_dir, directory)
    # Padding and truncation belong to the call: with MiniLM's own, every text becomes 128 tokens.
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["padding"] = tokenizer["truncation"] = None
    write_json(path, tokenizer)
    settings_path = tokenizer_dir / "tokenizer_config.json"
    settings = (
        json.loads(settings_path.read_text(encoding="utf-8")) if settings_path.is_file() else {}
    )
    settings.pop("name_or_path", None)
    settings["model_max_length"] = max_length
    write_json(directory / "tokenizer_config.json", settings)


def bundle_tokenizer(directory: Path) -> tuple[Tokenizer, dict[str, int]]:
    """Open the tokenizer of a written checkpoint, with its special ids by name."""
    special_ids = special_token_ids(directory)
    return Tokenizer(directory, special_ids=special_ids), special_ids


def write_manifest(
    directory: Path,
    *,
    spec: BundleSpec,
    hidden_size: int,
    special_ids: dict[str, int],
    golden: Golden,
    artifacts: Sequence[tuple[Artifact, Backend]],
    tokenizer: Tokenizer,
    dev_values: FloatArray,
    no_answer_threshold: float | None = None,
) -> Manifest:
    """Write ``edgebert.json`` beside the files that it names.

    Args:
        directory: Of the bundle.
        spec: What the bundle says of itself.
        hidden_size: Width of the last hidden state.
        special_ids: Token ids by name.
        golden: Inputs.
        artifacts: Without golden outputs, each with its open engine; of each engine FP32 first.
        tokenizer: The bundle's.
        dev_values: Rows of the torch model on dev; an embedder's are its vectors.
        no_answer_threshold: Of a question-answering that may have no answer.
    """
    head = spec.head
    embedder = head.task == "feature-extraction"
    manifest = Manifest(
        task=head.task,
        labels=head.labels,
        problem_type=head.problem_type if head.task == "text-classification" else None,
        pairs=spec.pairs,
        max_length=spec.max_length,
        hidden_size=hidden_size,
        pooling=head.pooling,
        pooling_layers=head.pooling_layers,
        embedding_size=None if head.dense is None else dev_values.shape[1],
        normalize=head.normalize,
        prompts=spec.prompts,
        special_ids=special_ids,
        on_long=spec.on_long,
        stride=spec.stride,
        no_answer_threshold=no_answer_threshold,
        max_answer_length=head.max_answer_length,
        int8_scale=_int8_scale(dev_values) if embedder else None,
        files=tuple(FileRecord.of(directory, name) for name in COMMON_FILES),
        artifacts=tuple(artifact for artifact, _ in artifacts),
        golden=golden,
        lineage=spec.lineage,
    )
    manifest = replace(manifest, artifacts=_with_golden(artifacts, tokenizer, manifest))
    manifest.save(directory)
    return manifest


def _int8_scale(vectors: FloatArray) -> tuple[float, ...]:
    largest = np.maximum(np.abs(vectors).max(axis=0), 1e-6) * SCALE_HEADROOM  # [dim]
    return tuple(float(x) for x in largest / INT8_MAX)


def _with_golden(
    artifacts: Sequence[tuple[Artifact, Backend]], tokenizer: Tokenizer, manifest: Manifest
) -> tuple[Artifact, ...]:
    finished, fp32 = [], {}
    for artifact, backend in artifacts:
        rows = golden_outputs(backend, tokenizer, manifest)
        if artifact.precision == "fp32":
            fp32[artifact.backend] = rows
        slack = int8_slack(rows, fp32[artifact.backend])  # 0 of FP32
        finished.append(with_golden(artifact, rows, slack=slack))
    return tuple(finished)
