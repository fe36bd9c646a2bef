"""Leaving early against going through all layers, side by side: time, layers and accuracy.

A six-layer student with exits is distilled on SST-2 from the teacher of sst2.py, which has to be
there. Then the texts of test go through the whole artifact and through its segments by turns, in
one call and one by one; medians of some rounds. Made-up texts would leave elsewhere than real ones,
so real ones are timed. It wants an idle machine.

python benchmarks/early_exit.py [--busy] [BUNDLE …]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import BUILD, save, shared, step

import edgebert
from edgebert.formats.exits import ExitArtifact
from edgebert.formats.manifest import Manifest

DATA = shared("sst2")
TEACHER = BUILD / "sst2-teacher"
SHAPE = "L=6,H=384,A=12,I=1536"
MADE = {"early-exit": (), "early-exit-layerdrop": ("--layerdrop", "0.1")}
TEXTS, ROUNDS = 300, 5
MOST_LOAD = 0.5


def make() -> list[Path]:
    """Distill the students that aren't there yet, without LayerDrop and with it."""
    made = []
    for name, flags in MADE.items():
        bundle = BUILD / name
        files = [f"--{split}-file={DATA / split}.tsv" for split in ("train", "dev", "test")]
        if not bundle.is_dir():
            plain = ("--teacher", str(TEACHER), "--student", SHAPE, "--output-dir", str(bundle))
            engines = ("--backend", "onnx", "--backend", "openvino")
            run = step("distill", *plain, "--early-exit", *files, *engines, *flags)
            bundle.with_name(f"{name}.json").write_text(json.dumps(run), encoding="utf-8")
        made.append(bundle)
    return made


def test_rows() -> tuple[list[str], list[str]]:
    """Give texts and labels of test, the first so many."""
    head, *lines = (DATA / "test.tsv").read_text(encoding="utf-8").splitlines()
    columns = head.split("\t")
    text = columns.index("sentence") if "sentence" in columns else columns.index("text")
    label = columns.index("label")
    rows = [line.split("\t") for line in lines[:TEXTS]]
    return [row[text] for row in rows], [row[label] for row in rows]


def seconds(run: Callable[[], object]) -> float:
    """Time one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(bundle: Path, artifact: ExitArtifact) -> dict[str, Any]:
    """Time the whole artifact and its segments by turns; say how far texts went, and how well."""
    texts, labels = test_rows()
    name = (artifact.backend, artifact.precision)
    whole, early = edgebert.Runtime(bundle, *name), edgebert.Runtime(bundle, *name, early_exit=True)
    took: dict[str, dict[str, list[float]]] = {}
    with whole, early:
        for way, calls in (("together", [texts]), ("one_by_one", [[text] for text in texts])):
            runs = {"whole": whole, "early": early}
            found = took.setdefault(way, {key: [] for key in runs})
            for number in range(ROUNDS + 1):
                for key, runtime in runs.items():
                    spent = seconds(lambda r=runtime, c=calls: [r.classify(part) for part in c])
                    if number:  # what is slow once is over
                        found[key].append(spent)
        answers = {"whole": whole.classify(texts), "early": early.classify(texts)}
        threads = early.info.threads
    layers = [one.exit_layer for one in answers["early"]]
    result: dict[str, Any] = {
        "batch_invariant": artifact.batch_invariant,
        "threshold": artifact.threshold,
        "threads": threads,
        "mean_layers": round(statistics.fmean(layers), 3),
        "accuracy": {
            key: round(statistics.fmean(a.label == b for a, b in zip(own, labels, strict=True)), 4)
            for key, own in answers.items()
        },
    }
    for way, found in took.items():
        medians = {key: statistics.median(times) for key, times in found.items()}
        result[way] = {
            "ms_a_text": {key: round(1000 * one / TEXTS, 3) for key, one in medians.items()},
            "speedup": round(medians["whole"] / medians["early"], 3),
        }
    return result


def main(arguments: list[str]) -> None:
    """Measure the bundles named, or make those of this file."""
    load = os.getloadavg()[0]
    if load > MOST_LOAD and "--busy" not in arguments:
        sys.exit(f"The load is {load:.1f}, above {MOST_LOAD}; wait, or give --busy to go on.")
    bundles = [Path(one) for one in arguments if one != "--busy"] or make()
    results = {}
    for bundle in bundles:
        exits = Manifest.load(bundle).early_exit
        if exits is None:
            sys.exit(f"{bundle} has no exits; make one with compress.distill --early-exit.")
        report = json.loads((bundle / "report.json").read_text(encoding="utf-8"))
        results[bundle.name] = {
            "budget": exits.budget,
            "layers": exits.num_hidden_layers,
            "artifacts": {
                f"{one.backend}/{one.precision}": measure(bundle, one) for one in exits.artifacts
            },
            "report": report["exits"],
        }
        save("early_exit", results)


main(sys.argv[1:])
