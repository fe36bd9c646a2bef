"""``edgebert doctor``: what this device has, which artifact it takes, and why not the others."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

from edgebert import __version__
from edgebert.bundles.bundle import Bundle, name_of
from edgebert.bundles.wheels import Platform, install_line
from edgebert.cache import cache_directory
from edgebert.commands.arguments import add_json, add_threads
from edgebert.commands.backends import describe_backend, describe_machine
from edgebert.commands.table import format_table, megabytes
from edgebert.cpu import cgroup_quota, default_threads, machine, memory_limit
from edgebert.engines.choice import Choice, gate_report, what_auto_takes
from edgebert.engines.probing import why_no_import, why_no_load
from edgebert.shell import EXIT_DONE, EXIT_ERROR
from runtimes import BACKENDS

_VARIABLES = ("EDGEBERT_NUM_THREADS", "OMP_NUM_THREADS", "EDGEBERT_CACHE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "bundle", type=Path, nargs="?", metavar="BUNDLE", help="Say what of it runs here, too"
    )
    add_json(parser)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 when no engine works, or nothing of the bundle does."""
    bundle = None if args.bundle is None else Bundle(args.bundle)
    report = device()
    if bundle is not None:
        report["bundle"] = examine(
            bundle, report["engines"], threads=args.threads or default_threads()
        )
    if args.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        print(_shown(report))
    works = any(engine["imports"] for engine in report["engines"])
    return EXIT_DONE if works and report.get("bundle", {"works": True})["works"] else EXIT_ERROR


def device() -> dict[str, Any]:
    """Say what this device has, as JSON can hold it; engines are imported in processes of theirs.

    Returns:
        ``machine`` as `edgebert.cpu.machine`; ``packages`` with their versions; ``cgroup_quota`` in
        CPUs and ``memory_limit`` in bytes, or None; ``environment``, the variables that count;
        ``cache {path, state, records}``; ``engines [{backend, engine, installed, imports, problem,
        install}]``.
    """
    return {
        "machine": machine(),
        "packages": {"edgebert": __version__, **_versions("numpy", "tokenizers")},
        "cgroup_quota": cgroup_quota(),
        "memory_limit": memory_limit(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "cache": _cache(),
        "engines": [_engine(name) for name in BACKENDS],
    }


def examine(bundle: Bundle, engines: list[dict[str, Any]], *, threads: int) -> dict[str, Any]:
    """Load a bundle as ``auto`` does, and say what it takes and why not the others.

    Args:
        bundle: To load.
        engines: Of `device`. The bundle isn't loaded where an engine that it would start is known
            to end the process.
        threads: Of the engine.

    Returns:
        ``takes`` and ``why``; ``works``; ``artifacts [{artifact, path, size_bytes, taken, why_not,
        made_ms}]``, the last of one text of 32 tokens where the bundle was made, on ``made_on``;
        ``refused``, what the gate kept out of it.
    """
    broken = {one["backend"]: one["problem"] for one in engines if one["installed"]}
    used = {item.backend for item in bundle.manifest.artifacts}
    choice = what_auto_takes(bundle, threads=threads)
    problem = next((broken[name] for name in sorted(used) if broken.get(name)), None)
    if problem is None and not choice.why.startswith("nothing"):
        problem = why_no_load(bundle.directory, threads=threads)
        choice = what_auto_takes(bundle, threads=threads)
    if problem is not None:
        choice = Choice(taken=None, why=f"nothing: {problem}", others=choice.others)
    gate = gate_report(bundle)
    return {
        "path": str(bundle.directory),
        "takes": choice.taken and name_of(choice.taken),
        "why": choice.why,
        "works": not choice.why.startswith("nothing"),
        "made_on": gate["cpu"],
        "artifacts": [
            {
                "artifact": name_of(item),
                "path": (path := item.files[0].path),
                "size_bytes": item.size_bytes,
                "taken": item == choice.taken,
                "why_not": broken.get(item.backend) or choice.others.get(path),
                "made_ms": gate["latency_ms"].get(path),
            }
            for item in bundle.manifest.artifacts
        ],
        "refused": gate["refused"],
    }


def _engine(backend: str) -> dict[str, Any]:
    found = describe_backend(backend)
    problem = why_no_import(backend) if found["installed"] else None
    return {
        **{key: found[key] for key in ("backend", "engine", "installed")},
        "imports": found["installed"] and problem is None,
        "problem": problem,
        "install": install_line(backend, Platform.here()),
    }


def _versions(*names: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # frozen into one file
            found[name] = None
    return found


def _cache() -> dict[str, Any]:
    folder = cache_directory()
    if folder is None:
        return {"path": None, "state": "off", "records": 0}
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    records = sum(1 for _ in folder.glob("*.json")) if folder.is_dir() else 0
    state = "writable" if writable else "read-only: every load tests and measures again"
    return {"path": str(folder), "state": state, "records": records}


def _shown(report: dict[str, Any]) -> str:
    quota, limit, cache = report["cgroup_quota"], report["memory_limit"], report["cache"]
    versions = [f"{name} {version or '?'}" for name, version in report["packages"].items()]
    facts = {
        "device": describe_machine(report["machine"]),
        "packages": ", ".join(versions),
        "quota": "none" if quota is None else f"{quota:g} CPUs",
        "memory": "not known" if limit is None else f"{limit / 1e9:.1f} GB for this process",
        "cache": f"{cache['path'] or ''} {cache['state']}, {cache['records']} records".strip(),
    }
    if report["environment"]:
        facts["set"] = ", ".join(f"{k}={v}" for k, v in report["environment"].items())
    lines = [f"{name:10}{value}" for name, value in facts.items()]
    table = [
        (
            one["backend"],
            one["engine"] or "-",
            _works(one),
            "" if one["imports"] else one["install"],
        )
        for one in report["engines"]
    ]
    lines += ["", format_table(("backend", "engine", "imports", "install with"), table)]
    return "\n".join(lines + (_bundle_lines(report["bundle"]) if "bundle" in report else []))


def _works(engine: dict[str, Any]) -> str:
    return "yes" if engine["imports"] else (engine["problem"] or "no engine")


def _bundle_lines(found: dict[str, Any]) -> list[str]:
    rows = [
        (
            item["artifact"],
            megabytes(item["size_bytes"]),
            "-" if item["made_ms"] is None else f"{item['made_ms']:.3g} ms",
            "taken" if item["taken"] else (item["why_not"] or "-"),
        )
        for item in found["artifacts"]
    ]
    rows += [(path, "-", "-", f"refused: {why}") for path, why in found["refused"].items()]
    made = f" (made on {found['made_on']})" if found["made_on"] else ""
    header = ("artifact", "size", "where it was made", "here")
    head = textwrap.fill(f"{found['path']}{made} takes {found['why']}", 100)
    return ["", head, "", format_table(header, rows)]
