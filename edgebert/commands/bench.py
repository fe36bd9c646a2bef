"""``edgebert bench``: latency of every artifact on this machine, taken by turns."""

from __future__ import annotations

import argparse
import json
import logging
from contextlib import ExitStack
from functools import partial
from typing import Any

from edgebert.bundles.bundle import Bundle, name_of
from edgebert.commands.arguments import add_bundle, add_threads, positive
from edgebert.commands.table import format_table, megabytes
from edgebert.cpu import default_threads, machine
from edgebert.engines.bench import batch_of_length, interleaved_latency_ms, lengths_to_time
from edgebert.engines.engine import Engine
from edgebert.engines.loading import open_artifact, open_bundle
from edgebert.errors import BackendUnavailableError, EdgeBertError
from runtimes import SessionOptions

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_threads(parser)
    parser.add_argument("--repeats", type=positive, default=30, help="Timed rounds (default: 30)")


def run(args: argparse.Namespace) -> int:
    """Print milliseconds of one text of 8 to 512 tokens, what INT8 gains, what ``auto`` takes."""
    bundle = Bundle(args.bundle)
    options = SessionOptions(threads=args.threads or default_threads())
    chosen, why = _auto(bundle, options)
    with ExitStack() as stack:
        engines = _open_all(bundle, options, stack)
        latency = _measure(bundle, engines, repeats=args.repeats)
        rows = [_row(engine, latency[path]) for path, engine in engines.items()]
    report = {
        "machine": machine(),
        "threads": options.threads,
        "rows": rows,
        "speedup_int8_over_fp32": _speedups(rows, "int8"),
        "speedup_int4_over_fp32": _speedups(rows, "int4"),
        "auto": {"path": chosen, "why": why, "over_best": _over_best(rows, chosen)},
    }
    print(json.dumps(report, ensure_ascii=False, indent=2) if args.json else _format(report))
    return 0


def _auto(bundle: Bundle, options: SessionOptions) -> tuple[str, str]:
    """Load as `edgebert.Runtime` does; give the path of the artifact that it took, and why."""
    opened = open_bundle(
        bundle,
        backend="auto",
        precision="auto",
        options=options,
        self_test="first-load",
        fallback=False,
    )
    opened.engine.close()
    return opened.engine.artifact.files[0].path, opened.why


def _open_all(bundle: Bundle, options: SessionOptions, stack: ExitStack) -> dict[str, Engine]:
    opened: dict[str, Engine] = {}
    for artifact in bundle.manifest.artifacts:
        try:
            engine = open_artifact(bundle, artifact, options, "first-load").engine
        except BackendUnavailableError as error:
            logger.warning("%s is left out: %s", name_of(artifact), error)
            continue
        stack.callback(engine.close)
        opened[artifact.files[0].path] = engine
    if not opened:
        raise EdgeBertError(
            f"No artifact of {bundle.directory} can run here: none of its engines is installed. "
            "See `edgebert backends`."
        )
    return opened


def _measure(
    bundle: Bundle, engines: dict[str, Engine], *, repeats: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Time one text at each length that the bundle takes: latency by artifact and length."""
    latency: dict[str, dict[str, dict[str, float]]] = {path: {} for path in engines}
    for length in lengths_to_time(bundle.manifest):
        batch = batch_of_length(bundle.manifest, length)
        runs = {path: partial(engine.run, batch) for path, engine in engines.items()}
        logger.info("timing one text of %d tokens, %d rounds", length, repeats)
        for path, times in interleaved_latency_ms(runs, repeats=repeats).items():
            latency[path][f"b1_s{length}"] = times
    return latency


def _row(engine: Engine, latency: dict[str, dict[str, float]]) -> dict[str, Any]:
    artifact = engine.artifact
    return {
        "backend": artifact.backend,
        "precision": artifact.precision,
        "path": artifact.files[0].path,
        "size_bytes": artifact.size_bytes,
        "engine": engine.name,
        "latency_ms": latency,
    }


def _over_best(rows: list[dict[str, Any]], chosen: str) -> dict[str, float]:
    """Divide the median of the chosen artifact by the best one's, for each shape."""
    by_path = {row["path"]: row["latency_ms"] for row in rows}
    return {
        shape: times["p50"] / min(other[shape]["p50"] for other in by_path.values())
        for shape, times in by_path[chosen].items()
    }


def _speedups(rows: list[dict[str, Any]], quantized: str) -> dict[str, dict[str, float]]:
    """Divide FP32's median by that of INT8 or INT4, for each backend that has both."""
    by_key = {(row["backend"], row["precision"]): row["latency_ms"] for row in rows}
    return {
        backend: {
            shape: times["p50"] / by_key[backend, quantized][shape]["p50"]
            for shape, times in by_key[backend, "fp32"].items()
        }
        for backend, precision in by_key
        if precision == "fp32" and (backend, quantized) in by_key
    }


def _format(report: dict[str, Any]) -> str:
    here, rows = report["machine"], report["rows"]
    shapes = list(rows[0]["latency_ms"])
    table = [
        [f"{row['backend']} {row['precision']}", megabytes(row["size_bytes"])]
        + [f"{row['latency_ms'][s]['p50']:.2f} ({row['latency_ms'][s]['p95']:.2f})" for s in shapes]
        for row in rows
    ]
    table += [
        [f"{backend} fp32 / {kind}", "-"] + [f"{ratios[shape]:.2f}x" for shape in shapes]
        for kind in ("int8", "int4")
        for backend, ratios in report[f"speedup_{kind}_over_fp32"].items()
    ]
    auto = report["auto"]
    behind = ", ".join(f"{ratio:.2f}x" for ratio in auto["over_best"].values())
    tokens = [f"{shape.rpartition('s')[2]} tokens" for shape in shapes]
    return "\n".join(
        [
            f"{here['cpu']} ({' '.join(here['features'])}), threads: {report['threads']}, "
            + ", ".join(sorted({row["engine"] for row in rows})),
            "Latency of one text in ms, median (95th percentile); runs take turns.",
            "",
            format_table(["artifact", "size", *tokens], table),
            "",
            f"auto takes {auto['why']}.",
            f"Its median over the best one's at each length: {behind}.",
        ]
    )
