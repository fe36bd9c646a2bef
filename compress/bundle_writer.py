"""A bundle's files: a Hugging Face model directory, the manifest, golden inputs and outputs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from compress.data import Split
from compress.loading import special_token_ids
from compress.probe import TaskHead
from compress.saving import copy_tokenizer, save_model
from compress.sentence_layout import SentenceLayout, write_layout
from edgebert.files import write_json
from edgebert.manifest import Artifact, FileRecord, Golden, Manifest
from edgebert.selftest import golden_outputs
from edgebert.tokenizer import Tokenizer
from edgebert.types import FloatArray
from runtimes.base import Backend

logger = logging.getLogger(__name__)

COMMON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
GOLDEN_TEXTS = 16
# Accents that compose, quotes, scripts without spaces, right-to-left, an emoji of several code
# points, a private-use character and a zero-width one: where tokenizers were seen to differ.
ODD_TEXT = "Na\u00efve cafe\u0301 \u201cquoted\u201d \u2014 \u6f22\u5b57 \u0639\u0631\u0628\u064a \U0001f469\u200d\U0001f52c \uf059 \u200bend"  # noqa: E501  one text


@dataclass(frozen=True, kw_only=True)
class BundleSpec:
    """What a bundle says of itself, whatever its artifacts.

    Attributes:
        head: Task, labels, problem type, pooling, normalize.
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


def write_checkpoint(directory: Path, model: Any, tokenizer_dir: Path, spec: BundleSpec) -> None:
    """Write what transformers and sentence-transformers open.

    Args:
        directory: Empty.
        model: A `transformers` model; its weights become ``model.safetensors``.
        tokenizer_dir: Where its tokenizer's files are.
        spec: Labels go into ``config.json``, pooling into ``modules.json``.
    """
    config_path = directory / "config.json"
    save_model(model, directory)
    config = json.loads(config_path.read_text(encoding="utf-8"))
    if spec.head.task == "text-classification":
        config["id2label"] = {str(i): label for i, label in enumerate(spec.head.labels)}
        config["label2id"] = {label: i for i, label in enumerate(spec.head.labels)}
        config["problem_type"] = spec.head.problem_type
    write_json(config_path, config)
    _write_tokenizer(directory, tokenizer_dir, max_length=spec.max_length)
    if spec.head.task == "feature-extraction":
        layout = SentenceLayout(
            pooling=spec.head.pooling or "mean",
            normalize=spec.head.normalize,
            max_length=spec.max_length,
            prompts=spec.prompts,
        )
        write_layout(directory, layout, hidden_size=model.config.hidden_size)


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


def golden_of(split: Split, tokenizer: Tokenizer, *, spec: BundleSpec) -> Golden:
    """Choose golden inputs: from the shortest text to the longest, and an odd one.

    Args:
        split: Dev.
        tokenizer: The bundle's.
        spec: Of the bundle.
    """
    seconds = split.text_pairs if spec.pairs else None
    lengths = [len(text) for text in split.texts]
    if seconds is not None:
        lengths = [a + len(b) for a, b in zip(lengths, seconds, strict=True)]
    by_length = np.argsort(lengths, kind="stable")
    places = np.linspace(0, len(by_length) - 1, min(GOLDEN_TEXTS - 1, len(by_length)))
    rows = by_length[np.unique(places.astype(np.int64))].tolist()
    texts = (*(split.texts[row] for row in rows), ODD_TEXT)
    pairs = None if seconds is None else (*(seconds[row] for row in rows), ODD_TEXT)
    encodings = tokenizer.encode(texts, pairs, max_length=spec.max_length)
    ids = tuple(tuple(map(int, encoding.input_ids)) for encoding in encodings)
    return Golden(texts=texts, text_pairs=pairs, input_ids=ids)


def check_other_tokenizer(directory: Path, golden: Golden, *, max_length: int) -> None:
    """Warn when ``AutoTokenizer`` gives other ids than ours for a golden text."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    texts = [list(golden.texts)] + ([list(golden.text_pairs)] if golden.text_pairs else [])
    found = theirs(*texts, truncation=True, max_length=max_length)["input_ids"]
    for text, ids, expected in zip(golden.texts, found, golden.input_ids, strict=True):
        if tuple(ids) != expected:
            logger.warning(
                "AutoTokenizer reads %.60r as other tokens than tokenizer.json does; vectors and "
                "labels of transformers and of edgebert will differ on such texts.",
                text,
            )
            return


def with_golden(artifact: Artifact, outputs: Sequence[FloatArray], *, slack: float) -> Artifact:
    """Put the golden outputs into an artifact, and the tolerance of its self-test.

    Args:
        artifact: Without golden outputs.
        outputs: Of this artifact, one a golden text.
        slack: What another CPU may differ by; at least a thousandth of the largest output is
            allowed (two FP32 engines on MiniLM differed by 5e-6).
    """
    largest = max(float(np.abs(row).max(initial=0.0)) for row in outputs)
    rounded = tuple(tuple(float(f"{value:.7g}") for value in row) for row in outputs)
    return replace(artifact, golden=rounded, tolerance=max(slack, 1e-3 * largest, 1e-6))


def int8_slack(int8: Sequence[FloatArray], fp32: Sequence[FloatArray]) -> float:
    """Tell how much INT8 outputs may differ between CPUs.

    Two CPUs that round alike differ by less than INT8 differs from FP32, as they share its error;
    one that saturates, as those without VNNI may, by several times as much. The limit is twice.
    """
    gaps = [float(np.abs(a - b).max(initial=0.0)) for a, b in zip(int8, fp32, strict=True)]
    return 2 * max(gaps)


def write_manifest(
    directory: Path,
    *,
    spec: BundleSpec,
    hidden_size: int,
    special_ids: dict[str, int],
    golden: Golden,
    artifacts: Sequence[tuple[Artifact, Backend]],
    tokenizer: Tokenizer,
    int8_scale: tuple[float, ...] | None,
) -> Manifest:
    """Write ``edgebert.json`` beside the files that it names.

    Args:
        directory: Of the bundle.
        spec: What the bundle says of itself.
        hidden_size: Width of the last hidden state.
        special_ids: Token ids by name.
        golden: Inputs.
        artifacts: Without golden outputs, each with its open engine; FP32 first.
        tokenizer: The bundle's.
        int8_scale: For vectors in int8, or None.
    """
    manifest = Manifest(
        task=spec.head.task,
        labels=spec.head.labels,
        problem_type=spec.head.problem_type,
        pairs=spec.pairs,
        max_length=spec.max_length,
        hidden_size=hidden_size,
        pooling=spec.head.pooling,
        normalize=spec.head.normalize,
        prompts=spec.prompts,
        special_ids=special_ids,
        int8_scale=int8_scale,
        files=tuple(FileRecord.of(directory, name) for name in COMMON_FILES),
        artifacts=tuple(artifact for artifact, _ in artifacts),
        golden=golden,
        lineage=spec.lineage,
    )
    outputs = [golden_outputs(backend, tokenizer, manifest) for _, backend in artifacts]
    finished = tuple(
        with_golden(
            artifact,
            rows,
            slack=0.0 if artifact.precision == "fp32" else int8_slack(rows, outputs[0]),
        )
        for (artifact, _), rows in zip(artifacts, outputs, strict=True)
    )
    manifest = replace(manifest, artifacts=finished)
    manifest.save(directory)
    return manifest
