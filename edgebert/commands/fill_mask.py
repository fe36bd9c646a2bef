"""``edgebert fill-mask``: the tokens that fit best in the place of a text's masks."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import edgebert
from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime, positive
from edgebert.commands.results import each_result
from edgebert.commands.texts import Text, add_texts, as_fields, read_texts, shown
from edgebert.types import Filling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_texts(parser, pairs=False)
    parser.add_argument("--top-k", type=positive, default=5, help="Tokens a mask (default: 5)")
    add_on_long(parser)
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``number<TAB>mask<TAB>score<TAB>token`` for each token, the best of a mask first.

    The number is the text's, and the mask its place among the masks of that text, both from 1. With
    ``--json`` each text is a line.
    """

    def call(runtime: edgebert.Runtime, texts: list[Text]) -> list[list[list[Filling]]]:
        strings = [str(text) for text in texts]  # no --pairs: they are
        return runtime.fill_mask(strings, top_k=args.top_k, on_long=args.on_long)

    done = "filled the masks of %d texts in %.2f s"
    for number, text, masks in each_result(args, read_texts(args), call, done=done):
        print(_json(text, masks) if args.json else _rows(number, masks))
    return 0


def _rows(number: int, masks: list[list[Filling]]) -> str:
    return "\n".join(
        f"{number}\t{mask}\t{one.score:.4f}\t{shown(one.token)}"
        for mask, fillings in enumerate(masks, start=1)
        for one in fillings
    )


def _json(text: Text, masks: list[list[Filling]]) -> str:
    filled = [[asdict(one) for one in fillings] for fillings in masks]
    return json.dumps({**as_fields(text), "masks": filled}, ensure_ascii=False)
