"""How far a text's raw numbers move beside other texts and padding, by task, engine and precision.

Each text is run alone and then as one of 1, 2, 7 and 32, padded to the longest, at lengths of 1 to
512 tokens as far as the bundle takes them. ``as run`` is what `edgebert.Runtime` does with such
texts: an artifact whose manifest says that batch-mates matter gets one text a call. For those,
``in one batch`` shows what would come out otherwise.

python benchmarks/invariance.py [BUNDLE …]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from bundles import measure_all
from engine_tables import INVARIANT_BATCHES, invariance

import edgebert
from edgebert.formats.manifest import Artifact, Manifest
from edgebert.types import Batch, FloatArray

Outputs: TypeAlias = dict[str, FloatArray]  # of one row, by name

LENGTHS = (1, 2, 3, 8, 17, 32, 64, 127, 128, 256, 384, 511, 512)
MAX_NUMBERS = 64e6  # of one output: a masked language model gives its vocabulary for each token


def padded_batch(manifest: Manifest, rows: int, length: int) -> Batch:
    """Make rows of real tokens: of random lengths, the first of several as long as the batch."""
    tokens = np.concatenate([np.array(ids, dtype=np.int64) for ids in manifest.golden.input_ids])
    rng = np.random.default_rng(rows * 1000 + length)
    lengths = rng.integers(1, length + 1, rows)
    if rows > 1:
        lengths[0] = length
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    ids = np.where(mask == 1, rng.choice(tokens, mask.shape), manifest.special_ids["pad_token_id"])
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(rows, dtype=np.int64))


def run_alone(runtime: edgebert.Runtime, batch: Batch) -> list[Outputs]:
    """Run each row in a call of its own, without its padding; give the outputs of each."""
    found = []
    for row, length in enumerate(batch.attention_mask.sum(axis=1)):
        ids = batch.input_ids[row : row + 1, :length]
        single = Batch(ids, np.ones_like(ids), np.zeros_like(ids), batch.dropped_tokens[:1])
        found.append({name: values[0] for name, values in runtime.run(single).items()})
    return found


def run_together(runtime: edgebert.Runtime, batch: Batch) -> list[Outputs]:
    """Run all rows in one call; give the outputs of each."""
    outputs = runtime.run(batch)
    return [{name: o[row] for name, o in outputs.items()} for row in range(len(batch.input_ids))]


def farthest(found: list[Outputs], alone: list[Outputs]) -> float:
    """Give the largest difference of any number; what is behind a row's own tokens is padding."""
    return max(
        float(np.abs(one[name][: len(values)] - values).max())
        for one, own in zip(found, alone, strict=True)
        for name, values in own.items()
    )


def shapes(runtime: edgebert.Runtime, manifest: Manifest) -> list[tuple[int, int]]:
    """List rows and lengths of the batches that the bundle takes."""
    outputs = runtime.run(padded_batch(manifest, 1, 1))
    width = sum(values.size for values in outputs.values())  # of one token
    return [
        (rows, length)
        for rows in INVARIANT_BATCHES
        for length in LENGTHS
        if length <= manifest.max_length and rows * length * width <= MAX_NUMBERS
    ]


def measure(bundle: Path, manifest: Manifest, artifact: Artifact) -> dict[str, Any]:
    """Run one artifact at every shape; give the largest differences, by batch and then length."""
    by_way: dict[str, dict[str, dict[str, float]]] = {"as_run": {}, "in_one_batch": {}}
    largest = 0.0
    with edgebert.Runtime(bundle, artifact.backend, artifact.precision) as runtime:
        for rows, length in shapes(runtime, manifest):
            batch = padded_batch(manifest, rows, length)
            alone, together = run_alone(runtime, batch), run_together(runtime, batch)
            again = together if artifact.batch_invariant else run_alone(runtime, batch)
            largest = max(largest, *(float(np.abs(v).max()) for one in alone for v in one.values()))
            for way, found in (("as_run", again), ("in_one_batch", together)):
                difference = farthest(found, alone)
                by_way[way].setdefault(str(rows), {})[str(length)] = difference
    return {"batch_invariant": artifact.batch_invariant, "largest_number": largest, **by_way}


print("\n".join(invariance(measure_all("invariance", sys.argv[1:], measure))))
