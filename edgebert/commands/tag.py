"""``edgebert tag``: the entities of texts."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import edgebert
from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime
from edgebert.commands.results import each_result
from edgebert.commands.texts import Text, add_texts, as_fields, read_texts, shown
from edgebert.tasks.tagging import AGGREGATIONS
from edgebert.types import Entity, Tagging


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

    def call(runtime: edgebert.Runtime, texts: list[Text]) -> list[Tagging]:
        strings = [str(text) for text in texts]  # no --pairs: they are
        return runtime.tag(strings, aggregation=args.aggregation, on_long=args.on_long)

    done = "tagged %d texts in %.2f s"
    for number, text, result in each_result(args, read_texts(args), call, done=done):
        if args.json:
            print(_json(text, result))
        for entity in () if args.json else result.entities:
            print(_row(number, entity))
    return 0


def _row(number: int, entity: Entity) -> str:
    place = f"{entity.start}\t{entity.end}"
    return f"{number}\t{entity.label}\t{entity.score:.4f}\t{place}\t{shown(entity.text)}"


def _json(text: Text, result: Tagging) -> str:
    return json.dumps({**as_fields(text), **asdict(result)}, ensure_ascii=False)
