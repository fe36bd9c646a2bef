"""``edgebert fill-mask``: the tokens that fit best in the place of a text's masks."""

from __future__ import annotations

import argparse
import json
import logging
import time
from dataclasses import asdict

from edgebert.commands.arguments import (
    add_bundle,
    add_on_long,
    add_runtime,
    open_runtime,
    positive,
)
from edgebert.commands.texts import (
    Text,
    add_texts,
    as_fields,
    chunked,
    counted_from,
    read_texts,
    shown,
)
from edgebert.types import Filling

logger = logging.getLogger(__name__)


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
    count, start = 0, time.perf_counter()
    with open_runtime(args) as runtime:
        for chunk in chunked(read_texts(args)):
            texts = [str(text) for text in chunk]  # no --pairs: they are strings
            with counted_from(count):
                results = runtime.fill_mask(texts, top_k=args.top_k, on_long=args.on_long)
            for text, masks in zip(texts, results, strict=True):
                count += 1
                print(_json(text, masks) if args.json else _rows(count, masks))
    logger.info("filled the masks of %d texts in %.2f s", count, time.perf_counter() - start)
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
