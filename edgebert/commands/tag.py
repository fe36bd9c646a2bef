"""``edgebert tag``: the entities of texts."""

from __future__ import annotations

import argparse
import json
import logging
import time
from dataclasses import asdict

from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime, open_runtime
from edgebert.commands.texts import (
    Text,
    add_texts,
    as_fields,
    chunked,
    counted_from,
    read_texts,
    shown,
)
from edgebert.tagging import AGGREGATIONS
from edgebert.types import Entity, Tagging

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_texts(parser, pairs=False)
    parser.add_argument(
        "--aggregation",
        choices=AGGREGATIONS,
        default="word",
        help="How tokens become entities (default: word)",
    )
    add_on_long(parser)
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``number<TAB>label<TAB>score<TAB>start<TAB>end<TAB>entity`` for each entity.

    The number is the input's, from 1; an input without entities has no line. With ``--json`` each
    input is a line.
    """
    count, start = 0, time.perf_counter()
    with open_runtime(args) as runtime:
        for texts in chunked(read_texts(args)):
            with counted_from(count):
                results = runtime.tag(
                    [str(text) for text in texts],
                    aggregation=args.aggregation,
                    on_long=args.on_long,
                )
            for text, result in zip(texts, results, strict=True):
                count += 1
                if args.json:
                    print(_json(text, result))
                for entity in () if args.json else result.entities:
                    print(_row(count, entity))
    logger.info("tagged %d texts in %.2f s", count, time.perf_counter() - start)
    return 0


def _row(number: int, entity: Entity) -> str:
    place = f"{entity.start}\t{entity.end}"
    return f"{number}\t{entity.label}\t{entity.score:.4f}\t{place}\t{shown(entity.text)}"


def _json(text: Text, result: Tagging) -> str:
    return json.dumps({**as_fields(text), **asdict(result)}, ensure_ascii=False)
