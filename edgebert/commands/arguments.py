"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import edgebert
from edgebert.formats.manifest import PRECISIONS
from edgebert.inputs import ON_LONG, SELF_TESTS, check_count

T = TypeVar("T")


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Declare ``BUNDLE`` and ``--json``."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="Directory of the bundle")
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="Print the result as JSON")


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Declare what `open_runtime` reads."""
    parser.add_argument("--backend", default="auto", help="Engine to run on (default: auto)")
    parser.add_argument(
        "--precision",
        choices=("auto", *PRECISIONS),
        default="auto",
        help="Of the weights (default: auto)",
    )
    add_threads(parser)
    parser.add_argument("--max-length", type=positive, help="Tokens (default: the bundle's)")
    parser.add_argument(
        "--self-test",
        choices=SELF_TESTS,
        default="first-load",
        help="When known outputs are reproduced (default: first-load)",
    )
    parser.add_argument(
        "--fallback", action="store_true", help="Go on with another artifact when one fails"
    )


def add_exits(parser: argparse.ArgumentParser) -> None:
    """Declare ``--early-exit`` and ``--num-hidden-layers``, for a bundle with exits."""
    parser.add_argument(
        "--early-exit",
        nargs="?",
        type=float,
        const=True,
        default=False,
        metavar="ENTROPY",
        help="Let a text leave at the first layer that is sure of its label: below the calibrated "
        "entropy, or one from 0 to 1",
    )
    parser.add_argument(
        "--num-hidden-layers", type=positive, help="Run so many of the first layers (default: all)"
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Declare ``--threads``."""
    parser.add_argument(
        "--threads", type=positive, help="CPU threads (default: affinity and cgroup quota)"
    )


def add_on_long(parser: argparse.ArgumentParser) -> None:
    """Declare ``--on-long``."""
    parser.add_argument("--on-long", choices=ON_LONG, help="What becomes of a text too long")


def open_runtime(args: argparse.Namespace) -> edgebert.Runtime:
    """Load the bundle as the arguments of `add_runtime` say."""
    return open_as(edgebert.Runtime, args)


def open_as(kind: Callable[..., T], args: argparse.Namespace) -> T:
    """Load it as a kind of Runtime."""
    return kind(
        args.bundle,
        backend=args.backend,
        precision=args.precision,
        threads=args.threads,
        max_length=args.max_length,
        self_test=args.self_test,
        fallback=args.fallback,
        early_exit=getattr(args, "early_exit", False),
        num_hidden_layers=getattr(args, "num_hidden_layers", None),
    )


def positive(text: str) -> int:
    """Parse a whole number from 1, for argparse."""
    try:
        return check_count("it", int(text))
    except ValueError as error:  # an `InputError` is one
        raise argparse.ArgumentTypeError(
            f"must be a whole number, 1 or more, got {text!r}"
        ) from error
