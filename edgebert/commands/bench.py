"""``edgebert bench``: latency of every artifact on this machine, taken by turns."""

from __future__ import annotations

import argparse
import json
import logging
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np

import edgebert
from edgebert.bench import SEQUENCE_LENGTHS, interleaved_latency_ms
from edgebert.bundle import Bundle
from edgebert.commands.arguments import add_bundle, add_threads, positive
from edgebert.commands.table import format_table, megabytes
from edgebert.cpu import machine
from edgebert.errors import BackendUnavailableError, EdgeBertError
from edgebert.manifest import Artifact, Manifest
from edgebert.types import Batch, RuntimeInfo

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_threads(parser)
    parser.add_argument("--repeats", type=positive, default=30, help="Timed rounds (default: 30)")


def run(args: argparse.Namespace) -> int:
    """Print milliseconds of one text of 8, 32, 128 and 512 tokens, and INT8's gain over FP32."""
    manifest = Bundle(args.bundle).manifest
    with ExitStack() as stack:
        opened = _open_all(manifest, args, stack)
        latency = _measure(manifest, opened, repeats=args.repeats)
        threads = next(iter(opened.values())).info.threads
        rows = [
            _row(artifact, opened[key].info, latency[key])
            for key, artifact in _keyed(manifest)
            if key in opened
        ]
    report = {
        "machine": machine(),
        "threads": threads,
        "rows": rows,
        "speedup_int8_over_fp32": _speedups(rows),
    }
    print(json.dumps(report, ensure_ascii=False, indent=2) if args.json else _format(report))
    return 0


def _keyed(manifest: Manifest) -> list[tuple[str, Artifact]]:
    return [(f"{a.backend}/{a.precision}", a) for a in manifest.artifacts]


def _open_all(
    manifest: Manifest, args: argparse.Namespace, stack: ExitStack
) -> dict[str, edgebert.Runtime]:
    opened: dict[str, edgebert.Runtime] = {}
    for key, artifact in _keyed(manifest):
        try:
            runtime = edgebert.Runtime(
                args.bundle,
                backend=artifact.backend,
                precision=artifact.precision,
                threads=args.threads,
            )
        except BackendUnavailableError as error:
            logger.warning("%s is left out: %s", key, error)
            continue
        opened[key] = stack.enter_context(runtime)
    if not opened:
        raise EdgeBertError(
            f"No artifact of {args.bundle} can run here: none of its engines is installed. "
            "See `edgebert backends`."
        )
    return opened


def _measure(
    manifest: Manifest, opened: dict[str, edgebert.Runtime], *, repeats: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Time one text at each length that the bundle takes: latency by artifact and length."""
    lengths = [n for n in SEQUENCE_LENGTHS if n <= manifest.max_length] or [manifest.max_length]
    latency: dict[str, dict[str, dict[str, float]]] = {key: {} for key in opened}
    for length in lengths:
        batch = batch_of_length(manifest, length)
        runs = {key: partial(runtime.run, batch) for key, runtime in opened.items()}
        logger.info("timing one text of %d tokens, %d rounds", length, repeats)
        for key, times in interleaved_latency_ms(runs, repeats=repeats).items():
            latency[key][f"b1_s{length}"] = times
    return latency


def batch_of_length(manifest: Manifest, length: int) -> Batch:
    """Make one text of exactly ``length`` tokens out of those of the golden inputs."""
    known = [token for ids in manifest.golden.input_ids for token in ids] or [0]
    input_ids = np.array([list(islice(cycle(known), length))], dtype=np.int64)  # [1, length]
    return Batch(
        input_ids=input_ids,
        attention_mask=np.ones_like(input_ids),
        token_type_ids=np.zeros_like(input_ids),
        dropped_tokens=np.zeros(1, dtype=np.int64),
    )


def _row(
    artifact: Artifact, info: RuntimeInfo, latency: dict[str, dict[str, float]]
) -> dict[str, Any]:
    return {
        "backend": artifact.backend,
        "precision": artifact.precision,
        "path": artifact.files[0].path,
        "size_bytes": artifact.size_bytes,
        "engine": info.engine,
        "latency_ms": latency,
    }


def _speedups(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Divide FP32's median by INT8's, for each backend that has both."""
    by_key = {(row["backend"], row["precision"]): row["latency_ms"] for row in rows}
    return {
        backend: {
            shape: times["p50"] / by_key[backend, "int8"][shape]["p50"]
            for shape, times in by_key[backend, "fp32"].items()
        }
        for backend, precision in by_key
        if precision == "fp32" and (backend, "int8") in by_key
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
        [f"{backend} fp32 / int8", "-"] + [f"{ratios[shape]:.2f}x" for shape in shapes]
        for backend, ratios in report["speedup_int8_over_fp32"].items()
    ]
    tokens = [f"{shape.rpartition('s')[2]} tokens" for shape in shapes]
    return "\n".join(
        [
            f"{here['cpu']} ({' '.join(here['features'])}), threads: {report['threads']}, "
            + ", ".join(sorted({row["engine"] for row in rows})),
            "Latency of one text in ms, median (95th percentile); runs take turns.",
            "",
            format_table(["artifact", "size", *tokens], table),
        ]
    )
