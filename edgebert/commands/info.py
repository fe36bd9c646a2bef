"""``edgebert info``: what a bundle holds and what would run here; no engine is started."""

from __future__ import annotations

import argparse
import json
from typing import Any

from edgebert.bundles.bundle import Bundle, name_of, why_not_here
from edgebert.commands.arguments import add_bundle, add_threads
from edgebert.commands.table import format_table, megabytes
from edgebert.cpu import default_threads
from edgebert.engines.choice import what_auto_takes
from edgebert.formats.exits import EarlyExit, ExitArtifact
from edgebert.formats.manifest import Artifact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Print what the manifest says."""
    facts = describe(Bundle(args.bundle), threads=args.threads or default_threads())
    if args.json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return 0
    artifacts = facts.pop("artifacts")
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        print(f"{name:{width}}{_shown(value)}")
    print()
    header = ("backend", "precision", "size", "batch invariant", "recipe", "path")
    rows = [
        (
            item["backend"],
            item["precision"] + (" in segments" if "threshold" in item else ""),
            megabytes(item["size_bytes"]),
            "yes" if item["batch_invariant"] else "no",
            item["recipe"].get("quantization") or "-",
            item["path"],
        )
        for item in artifacts
    ]
    print(format_table(header, rows))
    return 0


def describe(bundle: Bundle, *, threads: int) -> dict[str, Any]:
    """Collect a bundle's facts, as JSON can hold them; what runs here, with so many threads."""
    manifest = bundle.manifest
    return {
        "task": manifest.task,
        "problem_type": manifest.problem_type,
        "pairs": manifest.pairs,
        "labels": list(manifest.labels),
        "max_length": manifest.max_length,
        "on_long": manifest.on_long,
        "hidden_size": manifest.hidden_size,
        "pooling": manifest.pooling,
        "normalize": manifest.normalize,
        "prompts": dict(manifest.prompts),
        "format_version": manifest.format_version,
        "steps": [str(entry.get("step", "?")) for entry in manifest.lineage],
        "runs_here": what_auto_takes(bundle, threads=threads).why,
        "early_exit": _early_exit(manifest.early_exit),
        "artifacts": [_artifact(artifact) for artifact in manifest.every_artifact],
    }


def _early_exit(exits: EarlyExit | None) -> dict[str, Any]:
    if exits is None:
        return {}
    on_dev = {
        name_of(one): f"below {one.threshold:.4g}, {one.mean_layers:.2f} layers on dev"
        for one in exits.artifacts
    }
    layers = exits.num_hidden_layers
    return {"layers": layers, "budget": exits.budget, "metric": exits.metric, **on_dev}


def _artifact(artifact: Artifact) -> dict[str, Any]:
    exits = {}
    if isinstance(artifact, ExitArtifact):
        exits = {"threshold": artifact.threshold, "mean_layers": artifact.mean_layers}
    return {
        **exits,
        "backend": artifact.backend,
        "precision": artifact.precision,
        "path": artifact.files[0].path,
        "files": [file.path for file in artifact.files],
        "size_bytes": artifact.size_bytes,
        "recipe": artifact.recipe,
        "gated_on": artifact.gated_on,
        "min_engine": artifact.min_engine,
        "batch_invariant": artifact.batch_invariant,
        "why_not_here": why_not_here(artifact),
    }


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {text!r}" for name, text in value.items()) or "-"
    return "-" if value is None else str(value)
