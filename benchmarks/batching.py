"""How much faster texts are together than one by one, for every artifact of some bundles.

Two workloads: 300 texts of mixed length, up to the bundle's longest, in random order; and 300 short
ones of like length. A batch may be slower than its texts one by one by 10 % at most. Both ways take
turns, so that what disturbs the machine disturbs both; still it wants an idle one.

python benchmarks/batching.py [--busy] [BUNDLE …]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bundles import asker, made_texts, measure_all
from engine_tables import batching

import edgebert
from edgebert.formats.manifest import Artifact, Manifest

TEXTS, ROUNDS = 300, 5
SHORT_WORDS = 8
MOST_LOAD = 0.5
LEAST_RATIO = 1 / 1.1


def workloads(manifest: Manifest) -> dict[str, list[str]]:
    """Give the texts of both; a golden word is some 1.3 tokens."""
    rng = np.random.default_rng(0)
    mixed = rng.integers(1, max(2, int(manifest.max_length / 1.5)), TEXTS).tolist()
    short = rng.integers(SHORT_WORDS - 1, SHORT_WORDS + 2, TEXTS).tolist()
    return {
        "mixed": made_texts(manifest, mixed),
        "short": made_texts(manifest, short, seed=1),
    }


def seconds(run: Callable[[list[str]], object], texts: list[str]) -> float:
    """Time one run."""
    start = time.perf_counter()
    run(texts)
    return time.perf_counter() - start


def measure(bundle: Path, manifest: Manifest, artifact: Artifact) -> dict[str, Any]:
    """Time both ways on both workloads; the best of some rounds by turns."""
    found: dict[str, Any] = {"batch_invariant": artifact.batch_invariant}
    with edgebert.Runtime(bundle, artifact.backend, artifact.precision) as runtime:
        ask = asker(runtime, manifest)

        ways: dict[str, Callable[[list[str]], object]] = {
            "together": ask,
            "one_by_one": lambda texts: [ask([text]) for text in texts],
        }
        for name, texts in workloads(manifest).items():
            ask(texts)  # what is slow once is over
            took: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(ROUNDS):
                for way, run in ways.items():
                    took[way].append(seconds(run, texts))
            best = {way: min(each) for way, each in took.items()}
            found[name] = {
                "texts_per_s": {way: round(TEXTS / one, 1) for way, one in best.items()},
                "ratio": round(best["one_by_one"] / best["together"], 3),
            }
        found["threads"] = runtime.info.threads
    return found


def main(arguments: list[str]) -> None:
    """Measure the bundles named, or those of seven_tasks.py; fail where a batch is too slow."""
    load = os.getloadavg()[0]
    if load > MOST_LOAD and "--busy" not in arguments:
        sys.exit(f"The load is {load:.1f}, above {MOST_LOAD}; wait, or give --busy to go on.")
    names = [argument for argument in arguments if argument != "--busy"]
    results = measure_all("batching", names, measure)
    print("\n".join(batching(results)))
    slow = [
        f"{name} {artifact} {workload} {found[workload]['ratio']}"
        for name, one in results.items()
        for artifact, found in one["artifacts"].items()
        for workload in ("mixed", "short")
        if found[workload]["ratio"] < LEAST_RATIO
    ]
    sys.exit(f"Slower together: {', '.join(slow)}" if slow else 0)


main(sys.argv[1:])
