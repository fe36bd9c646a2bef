"""Bundles to measure, artifact by artifact, and texts of any length made of their own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import BUILD, save

import edgebert
from edgebert.formats.manifest import Artifact, Manifest

METHODS: dict[str, str] = {
    "text-classification": "classify",
    "regression": "score",
    "token-classification": "tag",
    "question-answering": "answer",
    "multiple-choice": "choose",
    "fill-mask": "fill_mask",
    "feature-extraction": "encode",
}


def made_texts(manifest: Manifest, words: Sequence[int], *, seed: int = 0) -> list[str]:
    """Make one text a number of words, of the words of the golden texts."""
    golden = manifest.golden
    known = [word for text in (*golden.texts, *(golden.text_pairs or ())) for word in text.split()]
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(known, count)) for count in words]


def asker(
    runtime: edgebert.Runtime, manifest: Manifest
) -> Callable[[Sequence[str]], Sequence[Any]]:
    """Give a function that asks the task's method of texts, whatever its inputs look like."""
    call = getattr(runtime, METHODS[manifest.task])

    def as_input(text: str) -> Any:
        if manifest.task == "multiple-choice":
            return text, ["yes", text]
        if manifest.task == "fill-mask":
            return f"{runtime.mask_token} {text}"
        if manifest.pairs:
            return "Who was it?", text or "."
        return text

    def ask(texts: Sequence[str]) -> Sequence[Any]:
        found: Sequence[Any] = call([as_input(text) for text in texts])
        return found

    return ask


def measure_all(
    result: str, names: Sequence[str], measure: Callable[[Path, Manifest, Artifact], Any]
) -> dict[str, Any]:
    """Measure every artifact of some bundles, and save the result after each bundle.

    Args:
        result: Of ``benchmarks/results/RESULT.json``.
        names: Directories; none for the bundles that seven_tasks.py made.
        measure: Gives something for JSON.

    Returns:
        By bundle, ``{"task": …, "artifacts": {"onnx/fp32": …}}``.
    """
    made = sorted(path.parent for path in (BUILD / "seven").glob("*/edgebert.json"))
    results: dict[str, Any] = {}
    for bundle in map(Path, names or made):
        manifest = Manifest.load(bundle)
        found = {
            f"{one.backend}/{one.precision}": measure(bundle, manifest, one)
            for one in manifest.artifacts
        }
        results[bundle.name] = {"task": manifest.task, "artifacts": found}
        save(result, results)
    return results
