"""What the benchmarks share: where the data is, how a command is run, where a result goes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("EDGEBERT_SHARED", ROOT.parent / "shared"))
RESULTS = ROOT / "benchmarks" / "results"
BUILD = ROOT / "build" / "benchmarks"


def shared(name: str) -> Path:
    """Give a data set's folder below ``EDGEBERT_SHARED``, or end the program with the reason."""
    folder = SHARED / "data" / name
    if not folder.is_dir():
        sys.exit(f"{folder} is missing; set EDGEBERT_SHARED to the folder that holds data/{name}.")
    return folder


def step(name: str, *flags: str) -> dict[str, Any]:
    """Run a step of the toolchain as its command; give its time, and stop where it fails.

    Args:
        name: ``distill``, ``train``, …
        flags: Its command line.

    Returns:
        ``command`` as a user would type it, and ``seconds_total``.
    """
    command = ["python", "-m", f"compress.{name}", *flags]
    print("$", shlex.join(command), file=sys.stderr, flush=True)
    start = time.monotonic()
    done = subprocess.run([sys.executable, *command[1:]], cwd=ROOT, check=False)
    if done.returncode not in (0, 3):  # 3: a gate refused something, and the report says what
        sys.exit(f"exit {done.returncode}")
    told = shlex.join(command).replace(f"{ROOT}/", "").replace(f"{SHARED}/", "$EDGEBERT_SHARED/")
    return {"command": told, "seconds_total": round(time.monotonic() - start, 1)}


def once(name: str, directory: Path, *flags: str) -> dict[str, Any]:
    """Run a step into a directory, unless it has; give what `step` gave then.

    One that was interrupted goes on; its seconds are then those of the last part.
    """
    times = directory.with_name(f"{directory.name}.json")
    if not times.is_file():
        begun = directory.with_name(f"{directory.name}.work").is_dir()
        more = ("--resume",) if begun else ("--overwrite-output-dir",)
        run = step(name, *flags, "--output-dir", str(directory), *more)
        times.write_text(json.dumps(run), encoding="utf-8")
    found: dict[str, Any] = json.loads(times.read_text(encoding="utf-8"))
    return found


def evaluate(*flags: str) -> dict[str, Any]:
    """Run ``compress.evaluate`` and give what it prints."""
    command = [sys.executable, "-m", "compress.evaluate", *flags]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def latencies(teacher: Path, bundle: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Time a teacher in torch FP32 and a bundle's artifacts by turns, with equal threads.

    Returns:
        ``{"torch": {"b1_s32": {"p50": …, "p95": …}, …}, "onnx/int8": …}``.
    """
    from compress.artifacts.timing import compare_latency
    from compress.device import set_threads
    from compress.models.loading import load_teacher
    from edgebert.formats.manifest import Manifest
    from runtimes import SessionOptions, load_backend

    threads = set_threads(None)
    manifest = Manifest.load(bundle)
    model = load_teacher(teacher, task=manifest.task).model
    backends = {
        f"{one.backend}/{one.precision}": load_backend(
            one.backend, bundle / one.files[0].path, SessionOptions(threads=threads)
        )
        for one in manifest.artifacts
    }
    tokens = np.concatenate([np.array(ids) for ids in manifest.golden.input_ids])
    found = compare_latency(
        model, backends, tokens=tokens, max_length=manifest.max_length, repeats=100
    )
    return {
        name: {shape: {"p50": one.p50, "p95": one.p95} for shape, one in shapes.items()}
        for name, shapes in found.items()
    }


def report_of(bundle: Path) -> dict[str, Any]:
    """Read a bundle's ``report.json``."""
    found: dict[str, Any] = json.loads((bundle / "report.json").read_text(encoding="utf-8"))
    return found


def save(name: str, result: Any) -> None:
    """Write ``benchmarks/results/NAME.json`` and show it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def summary(bundle: Path) -> dict[str, Any]:
    """Take from a report what a table shows: teacher, artifacts, machine, times."""
    report = report_of(bundle)
    teacher = report["teacher"]
    keys = ("backend", "precision", "size_bytes", "score", "interval", "dev_score", "retention")
    return {
        "metric": report["metric"],
        "split": report["split"],
        "teacher": {
            key: teacher[key]
            for key in ("used", "params", "size_bytes", "score", "interval", "dev_score")
        }
        | {"latency_ms": teacher["latency_ms"], "texts_per_s": teacher["texts_per_s"]},
        "student": {key: report["student"][key] for key in ("name", "params", "init", "method")},
        "rows": [
            {key: row[key] for key in keys}
            | {
                "latency_ms": row["latency_ms"],
                "texts_per_s": row["texts_per_s"],
                "speedup_vs_teacher": row["speedup_vs_teacher"],
                "smaller_than_teacher": round(teacher["size_bytes"] / row["size_bytes"], 2),
                "gate": row["gate"]["passed"],
            }
            for row in report["rows"]
        ],
        "refused": [f"{row['backend']}/{row['precision']}" for row in report["refused"]],
        "data_rows": {name: split["rows"] for name, split in report["data"].items()},
        "machine": report["machine"],
        "seconds": report["seconds"],
        "versions": report["versions"],
        "notes": report["notes"],
    }
