"""``edgebert extract``: texts into a vector store, each row exactly once."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from edgebert.commands.arguments import add_bundle, add_runtime, positive
from edgebert.features.extraction import extract
from edgebert.features.quarantine import MAX_BAD
from edgebert.features.removing import MAX_REMOVED
from edgebert.features.scaling import SCALES
from edgebert.features.settings import LONG, Engine
from edgebert.features.sources import FORMATS
from edgebert.features.summary import Summary
from edgebert.inputs import ROLES
from edgebert.shell import EXIT_DONE, EXIT_ERROR
from edgebert.tasks.vectors import DTYPES

logger = logging.getLogger(__name__)

NO_ROLE = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    parser.add_argument(
        "inputs",
        type=Path,
        nargs="+",
        metavar="INPUT",
        help="File (.txt: a line a row; .csv, .tsv, .jsonl, .parquet), folder (a file a row), or - "
        "for stdin",
    )
    parser.add_argument(
        "--to", required=True, metavar="STORE", help="Like sqlite:notes.db or lancedb:folder"
    )
    parser.add_argument("--format", choices=FORMATS, help="Of the inputs (default: by the ending)")
    parser.add_argument("--text-column", help="Which is the text (default: text or sentence)")
    parser.add_argument("--id-column", help="Which tells rows apart (default: file and line)")
    parser.add_argument(
        "--metadata-column", action="append", default=[], help="Kept with each entry, repeatable"
    )
    _add_vectors(parser)
    parser.add_argument(
        "--update",
        action="store_true",
        help="Take INPUT as all that the store shall hold: embed changed rows anew, and remove "
        "those that are gone",
    )
    parser.add_argument(
        "--into-new",
        action="store_true",
        help="Embed everything into a new store beside this one, which takes its place at the end",
    )
    parser.add_argument(
        "--quarantine",
        type=Path,
        metavar="FILE",
        help="JSON lines of the rows that can't be used (default: beside the store)",
    )
    parser.add_argument(
        "--max-bad",
        type=_count,
        default=MAX_BAD,
        help=f"Rows that can't be used, at most, before the run stops (default: {MAX_BAD})",
    )
    parser.add_argument(
        "--max-removed",
        type=_rows_or_share,
        default=MAX_REMOVED,
        metavar="ROWS|SHARE",
        help="Rows that --update removes, at most, or it removes none and ends with an error "
        f"(default: {MAX_REMOVED:.0%}% of those stored)",
    )
    _add_scale(parser)
    add_runtime(parser)


def _add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=_count,
        help="Processes that embed, 0 for as many as cores and memory allow (default: this one "
        "alone, or on Ray one a CPU)",
    )
    parser.add_argument(
        "--scale", choices=SCALES, help="Have the workers on Ray, on one machine or many"
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="Of a running Ray, auto or host:port (default: begin one here, and end it)",
    )


def _add_vectors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--role",
        choices=(*ROLES, NO_ROLE),
        default="document",
        help="Whose prompt is put first (default: document)",
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="Of the vectors (default: float32)"
    )
    parser.add_argument("--truncate-dim", type=positive, help="Keep the first so many dimensions")
    parser.add_argument(
        "--on-long",
        choices=LONG,
        help="What becomes of a text too long: a bad row, cut, the mean of its windows, or an "
        "entry for each of them (default: the bundle's)",
    )
    parser.add_argument(
        "--token-vectors", action="store_true", help="Store each token's vector, not the text's"
    )


def run(args: argparse.Namespace) -> int:
    """Print what was done, with ``--json`` as one object; 1 where no row can be used."""
    with redirect_stdout(sys.stderr):  # Ray prints what it has to say
        summary = extract(
            args.bundle,
            args.inputs,
            args.to,
            text_column=args.text_column,
            id_column=args.id_column,
            metadata_columns=args.metadata_column,
            input_format=args.format,
            role=None if args.role == NO_ROLE else args.role,
            dtype=args.dtype,
            truncate_dim=args.truncate_dim,
            on_long=args.on_long,
            token_vectors=args.token_vectors,
            update=args.update,
            into_new=args.into_new,
            quarantine=args.quarantine,
            max_bad=args.max_bad,
            max_removed=args.max_removed,
            workers=args.workers,
            scale=args.scale,
            ray_address=args.ray_address,
            engine=engine_of(args),
        )
    print(json.dumps(asdict(summary), ensure_ascii=False) if args.json else _shown(summary))
    if not summary.quarantined or summary.quarantined < summary.rows:
        return EXIT_DONE
    logger.error("error: no row can be used; %s says why of each", summary.quarantine)
    return EXIT_ERROR


def engine_of(args: argparse.Namespace) -> Engine:
    """Give what the arguments of `add_runtime` say."""
    return Engine(
        backend=args.backend,
        precision=args.precision,
        threads=args.threads,
        max_length=args.max_length,
        self_test=args.self_test,
        fallback=args.fallback,
    )


def _shown(done: Summary) -> str:
    kinds = ("added", "changed", "unchanged", "kept", "removed", "quarantined")
    counts = [f"{getattr(done, kind)} {kind}" for kind in kinds if getattr(done, kind)]
    seconds = ", ".join(f"{stage} {value:.1f}" for stage, value in done.seconds.items())
    lines = [
        f"{done.rows} rows: {', '.join(counts)}",
        f"{done.entries} entries put into {done.store}, which holds {done.held}",
        f"{done.tokens} tokens, {done.dropped_tokens} dropped",
        f"seconds: {seconds}",
    ]
    if done.quarantine:
        lines.append(f"rows that can't be used: {done.quarantine}")
    return "\n".join(lines)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, got {text!r}")
    return int(text)


def _rows_or_share(text: str) -> int | float:
    number, share = text.removesuffix("%"), text.endswith("%")
    if not share and number.isdecimal():
        return int(number)
    try:
        found = float(number) / 100
    except ValueError:
        found = -1.0
    if not share or not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of rows, or a share from 0% to 100%, got {text!r}"
        )
    return found
