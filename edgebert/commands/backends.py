"""``edgebert backends``: the engines, whether they are installed, and this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from edgebert.bundles.installed import installed_version
from edgebert.commands.arguments import add_json
from edgebert.commands.table import format_table
from edgebert.cpu import machine
from runtimes import BACKENDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a backend; no engine is imported."""
    rows = [describe_backend(name) for name in BACKENDS]
    here = machine()
    if args.json:
        print(json.dumps({"backends": rows, "machine": here}, ensure_ascii=False, indent=2))
        return 0
    header = ("backend", "installed", "engine", "install with")
    table = [
        (
            row["backend"],
            "yes" if row["installed"] else "no",
            row["engine"] or "-",
            f"pip install 'edgebert[{row['extra']}]'",
        )
        for row in rows
    ]
    print(format_table(header, table))
    print()
    print(describe_machine(here))
    return 0


def describe_machine(here: Mapping[str, Any]) -> str:
    """Say in one line what `edgebert.cpu.machine` found."""
    features = " ".join(here["features"]) or "no known vector extension"
    memory = "" if here["memory_gb"] is None else f", {here['memory_gb']:.1f} GB"
    return (
        f"{here['cpu']} ({features}), {here['cores']} cores, threads: {here['threads']}{memory}, "
        f"{here['os']}, Python {here['python']}"
    )


def describe_backend(name: str) -> dict[str, Any]:
    """Say whether a backend's engine is installed, and in which version; nothing is imported."""
    found = installed_version(name)
    return {
        "backend": name,
        "installed": found is not None,
        "engine": found and " ".join(filter(None, found)),
        "extra": BACKENDS[name].extra,
    }
