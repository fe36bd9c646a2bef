"""How long a process takes from its start to its first vector.

A fresh Python each time: ``import edgebert``, open the bundle on one named engine, encode one text.
With the self-test of an earlier load in the cache, as every start but the first is, and without::

    python -m benchmarks.cold_start BUNDLE --backend onnx

On a busy machine ``cpu_s`` tells more than the wall clock: with one thread, all of it is work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, save

CODE = """
import sys, time
start = time.perf_counter()
import edgebert
bundle, backend, precision, threads = sys.argv[1:5]
edgebert.Runtime
imported = time.perf_counter()
runtime = edgebert.Runtime(bundle, backend, precision, threads=int(threads))
opened = time.perf_counter()
runtime.encode(["one short text"])
done = time.perf_counter()
import json
parts = {"import_s": imported - start, "open_s": opened - imported, "run_s": done - opened}
print(json.dumps(parts))
"""


def main() -> None:
    """Save medians, beside those of other artifacts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="An embedder")
    parser.add_argument("--backend", default="onnx")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    command = [sys.executable, "-c", CODE, str(arguments.bundle), arguments.backend]
    command += [arguments.precision, str(arguments.threads)]
    start(command, cache=None)  # the files are in memory afterwards
    with tempfile.TemporaryDirectory() as cache:
        start(command, cache=cache)
        cached = [start(command, cache=cache) for _ in range(arguments.runs)]
    tested = [start(command, cache=None) for _ in range(arguments.runs)]
    bare = [_seconds([sys.executable, "-c", "import numpy"], {})[0] for _ in range(arguments.runs)]
    report = {
        "backend": arguments.backend,
        "precision": arguments.precision,
        "threads": arguments.threads,
        "runs": arguments.runs,
        "self_test_cached": median(cached),
        "with_self_test": median(tested),
        "python_and_numpy_s": round(statistics.median(bare), 3),
    }
    path = RESULTS / "cold_start.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    save("cold_start", kept | {f"{arguments.backend}/{arguments.precision}": report})


def start(command: list[str], *, cache: str | None) -> dict[str, float]:
    """Start a process; give the seconds of all of it and of its parts."""
    before = os.times()
    seconds, out = _seconds(command, {"EDGEBERT_CACHE": cache or "off"})
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    parts: dict[str, float] = json.loads(out)
    return {"process_s": seconds, "cpu_s": cpu, **parts}


def median(runs: list[dict[str, float]]) -> dict[str, float]:
    """Give the median of each part, and the quickest and slowest whole process."""
    found = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
    whole = [run["process_s"] for run in runs]
    return {**found, "process_min_s": round(min(whole), 3), "process_max_s": round(max(whole), 3)}


def _seconds(command: list[str], more: dict[str, str]) -> tuple[float, str]:
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - begin, done.stdout


if __name__ == "__main__":
    main()
