"""Texts into the same stores by fastembed, sentence-transformers, Chroma itself and edgebert.

All open one bundle of all-MiniLM-L6-v2: torch its weights, the others its ONNX files.
Every way runs in a process of its own on the same cores, by turns, and starts with the model open;
the vectors it left in the store are compared with those of torch in FP32. No text is cut by any.
Wants an idle machine and Linux, and the environment that benchmarks/peers.sh makes.

python -m compress.export --model minilm --task feature-extraction --output-dir build/minilm
python benchmarks/peers_extract.py build/minilm [--rows N] [--repeats N] [--threads N] [--busy]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from common import BUILD, ROOT, save
from extraction import texts
from peer_ways import KEPT, peak_memory_mb
from serve import MOST_LOAD

import edgebert
from edgebert.cpu import default_threads, machine
from edgebert.features import extract, open_store
from edgebert.formats.manifest import Manifest
from edgebert.types import FloatArray

MOST_WORDS = 40  # of a text: fewer tokens than the bundle takes, so that no way cuts it
STORES = ("qdrant", "lancedb", "chroma")
TORCH = "sentence_transformers_qdrant"  # whose vectors are those to come near to


class Way(NamedTuple):
    """One way into one store: ``name`` is a function of ``peer_ways``, or ``edgebert``."""

    name: str
    store: str
    precision: str = "fp32"
    file: str = ""


def ways(bundle: Path) -> list[Way]:
    """Give the ways that are compared, with each precision that the bundle has for ONNX Runtime."""
    found = [Way(f"sentence_transformers_{store}", store) for store in STORES]
    for one in Manifest.load(bundle).artifacts:
        if one.backend == "onnx":
            kind = one.precision, one.files[0].path
            found += [Way(f"fastembed_{how}", "qdrant", *kind) for how in ("documents", "vectors")]
            found += [Way("edgebert", store, *kind) for store in STORES]
            if one.precision == "fp32":
                found.append(Way("chroma_default", "chroma", *kind))
    return sorted(found, key=lambda way: way.name != TORCH)


def ours(bundle: Path, way: Way, source: Path, folder: Path, threads: int) -> None:
    """Bring the texts into a store by `extract`; print and write what ``peer_ways`` does."""
    to = f"{way.store}:{folder}"
    with edgebert.Runtime(bundle, "onnx", way.precision, threads=threads) as runtime:
        runtime.encode(["warm"])
        start = time.perf_counter()
        extract(runtime, source, to, id_column="id", role=None, on_long="error")
        seconds = time.perf_counter() - start
        engine = runtime.info.engine
    memory_mb = peak_memory_mb()
    with open_store(to, read_only=True) as store:
        ids = list(store.ids())
        place = {entry.text: i for i, entry in enumerate(store.entries(ids))}
        lines = source.read_text(encoding="utf-8").splitlines()[:KEPT]
        kept = store.get([ids[place[json.loads(line)["text"]]] for line in lines])
    np.save(f"{folder}.npy", kept)
    told = {"held": len(ids), "seconds": seconds, "memory_mb": memory_mb}
    print(json.dumps({**told, "versions": {"edgebert": edgebert.__version__, "engine": engine}}))


def run(way: Way, args: argparse.Namespace, source: Path, folder: Path) -> dict[str, Any]:
    """Run a way in a process of its own; give what it prints, its seconds in all and vectors."""
    bundle, threads = str(args.bundle.resolve()), str(args.threads)
    if way.name == "edgebert":
        command = [sys.executable, __file__, bundle, "--ours", *way, str(source), str(folder)]
        command += ["--threads", threads]
    else:
        script = str(ROOT / "benchmarks" / "peer_ways.py")
        command = [str(args.peers), script, way.name, bundle, way.file, str(source), str(folder)]
        command.append(threads)
    quiet = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "OMP_NUM_THREADS": threads}
    start = time.perf_counter()
    child = subprocess.run(
        command, env={**os.environ, **quiet}, stdout=subprocess.PIPE, text=True, check=False
    )
    if child.returncode:
        sys.exit(f"{way.name} ended with {child.returncode}.")
    told: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    if told["held"] != args.rows:
        sys.exit(f"{way.name} left {told['held']} rows in {way.store}, not {args.rows}.")
    vectors = np.load(f"{folder}.npy")
    return {**told, "seconds_in_all": time.perf_counter() - start, "vectors": vectors}


def cosine(a: FloatArray, b: FloatArray) -> float:
    """Give the mean cosine of rows, ``[n, dim]`` each."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / lengths).mean())


def measure(args: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Run all ways by turns; give the medians of each."""
    source = folder / "texts.jsonl"
    chosen = [one for one in texts(2 * args.rows) if len(one.split()) <= MOST_WORDS][: args.rows]
    lines = (json.dumps({"id": i, "text": text}) for i, text in enumerate(chosen))
    source.write_text("\n".join(lines), encoding="utf-8")
    asked = ways(args.bundle)
    runs: dict[Way, list[dict[str, Any]]] = {way: [] for way in asked}
    for turn in range(args.repeats):
        for i, way in enumerate(asked):
            found = run(way, args, source, folder / f"{turn}-{i}")
            runs[way].append(found)
            shown = f"{args.rows / found['seconds']:.0f} texts/s, {found['memory_mb']:.0f} MB"
            print(*way[:3], shown, file=sys.stderr, flush=True)
    exact = runs[asked[0]][0]["vectors"]
    return [
        {
            "way": way.name,
            "store": way.store,
            "precision": way.precision,
            "texts_per_s": round(median(args.rows / one["seconds"] for one in found), 1),
            "texts_per_s_each": [round(args.rows / one["seconds"], 1) for one in found],
            "seconds_in_all": round(median(one["seconds_in_all"] for one in found), 2),
            "memory_mb": round(median(one["memory_mb"] for one in found), 1),
            "cosine_to_torch": round(cosine(found[0]["vectors"], exact), 6),
            "versions": found[0]["versions"],
        }
        for way, found in runs.items()
    ]


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--peers", type=Path, default=BUILD / "peers" / "bin" / "python")
    parser.add_argument("--busy", action="store_true", help="Measure on a machine that isn't idle")
    parser.add_argument("--ours", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ours:
        *way, source, folder = args.ours
        ours(args.bundle, Way(*way), Path(source), Path(folder), args.threads)
        return
    load = os.getloadavg()[0]
    if load > MOST_LOAD and not args.busy:
        sys.exit(f"The load is {load:.1f}, above {MOST_LOAD}; wait, or give --busy to go on.")
    if not args.peers.is_file():
        sys.exit(f"{args.peers} is missing; make it with benchmarks/peers.sh, or name --peers.")
    if args.rows < KEPT:
        sys.exit(f"--rows must be {KEPT} or more, got {args.rows}.")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # children's as well
    with tempfile.TemporaryDirectory() as place:
        rows = measure(args, Path(place))
    told = {"rows": args.rows, "repeats": args.repeats, "threads": args.threads}
    save("peers_extract", {**told, "load_before": load, "ways": rows, "machine": machine()})


if __name__ == "__main__":
    main()
