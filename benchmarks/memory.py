"""Resident memory of a process after 1,000 to 20,000 texts of random length, by artifact.

Each artifact runs in a process of its own, through the method of its task; texts come 1 to 64 at a
time, from one word to more than the bundle's longest. From 5,000 texts on it may grow by 4 MB at
most, which is what a page here and there comes to. Linux only.

python benchmarks/memory.py [BUNDLE …]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from bundles import asker, made_texts, measure_all
from common import ROOT
from engine_tables import memory

import edgebert
from edgebert.formats.manifest import Artifact, Manifest

MARKS = (0, 1_000, 2_000, 5_000, 10_000, 20_000)
WARM, MOST_GROWTH_MB = 5_000, 4.0


def resident_mb() -> float:
    """Read how much memory this process has in RAM."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def soak(bundle: Path, backend: str, precision: str) -> dict[int, float]:
    """Ask texts; give the resident MB after each number of `MARKS`, 0 for the opened bundle."""
    manifest = Manifest.load(bundle)
    rng = np.random.default_rng(0)
    longest = int(manifest.max_length / 1.2)
    done, found = 0, {}
    with edgebert.Runtime(bundle, backend, precision) as runtime:
        ask = asker(runtime, manifest)
        for mark in MARKS:
            while done < mark:
                words = rng.integers(1, longest + 1, min(mark - done, int(rng.integers(1, 65))))
                ask(made_texts(manifest, words.tolist(), seed=done))
                done += len(words)
            found[mark] = resident_mb()
    return found


def measure(bundle: Path, manifest: Manifest, artifact: Artifact) -> Any:  # noqa: ARG001
    """Soak an artifact in a process of its own."""
    asked = [str(bundle), artifact.backend, artifact.precision]
    command = [sys.executable, __file__, "--soak", *asked]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


if sys.argv[1:2] == ["--soak"]:
    print(json.dumps(soak(Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
else:
    results = measure_all("memory", sys.argv[1:], measure)
    print("\n".join(memory(results)))
    grown = {
        f"{name} {artifact}": round(found[str(MARKS[-1])] - found[str(WARM)], 1)
        for name, one in results.items()
        for artifact, found in one["artifacts"].items()
    }
    growing = {name: mb for name, mb in grown.items() if mb > MOST_GROWTH_MB}
    sys.exit(f"Not flat, MB: {growing}" if growing else 0)
