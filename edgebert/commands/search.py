"""``edgebert search``: what a store has that is most like a text."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from edgebert.commands.arguments import add_json, add_runtime, positive
from edgebert.commands.extract import NO_ROLE, engine_of
from edgebert.commands.texts import shown
from edgebert.features.entries import Scalar
from edgebert.features.searching import search
from edgebert.inputs import ROLES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("store", metavar="STORE", help="Like sqlite:notes.db")
    parser.add_argument("query", metavar="QUERY", help="The text")
    parser.add_argument(
        "--bundle", type=Path, required=True, help="The one that the store was made with"
    )
    add_json(parser)
    parser.add_argument("--k", type=positive, default=10, help="Hits, at most (default: 10)")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        type=_condition,
        metavar="COLUMN=VALUE",
        help="Metadata that must be equal, repeatable; COLUMN:=VALUE for a number, true, false or "
        "null, and key=VALUE for a row's key",
    )
    parser.add_argument(
        "--exact", action="store_true", help="Compare with every entry, index or no"
    )
    parser.add_argument(
        "--role",
        choices=(*ROLES, NO_ROLE),
        default="query",
        help="Whose prompt is put first (default: query)",
    )
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``score<TAB>key<TAB>text`` for each hit, with ``--json`` an object each."""
    hits = search(
        args.store,
        args.query,
        args.bundle,
        k=args.k,
        where=dict(args.where),
        exact=args.exact,
        role=None if args.role == NO_ROLE else args.role,
        engine=engine_of(args),
    )
    for hit in hits:
        if args.json:
            print(json.dumps({"score": hit.score, **asdict(hit.entry)}, ensure_ascii=False))
        else:
            print(f"{hit.score:.4f}\t{shown(hit.entry.key)}\t{shown(hit.entry.text)}")
    return 0


def _condition(text: str) -> tuple[str, Scalar]:
    name, equals, value = text.partition("=")
    if not equals or not name.removesuffix(":"):
        raise argparse.ArgumentTypeError(f"must be COLUMN=VALUE, got {text!r}")
    if not name.endswith(":"):
        return name, value
    try:
        found = json.loads(value)
    except ValueError:
        found = [value]
    if isinstance(found, dict | list):
        raise argparse.ArgumentTypeError(
            f"after := must stand a number, true, false or null, got {value!r}"
        )
    scalar: Scalar = found
    return name[:-1], scalar
