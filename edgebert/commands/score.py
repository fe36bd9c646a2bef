"""``edgebert score``: one number a text, or a pair of texts."""

from __future__ import annotations

import argparse
import json
import logging
import time

from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime, open_runtime
from edgebert.commands.texts import (
    add_texts,
    as_fields,
    chunked,
    counted_from,
    read_texts,
    shown,
)

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_texts(parser, pairs=True)
    add_on_long(parser)
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``score<TAB>text`` for each input, or a JSON object a line."""
    count, start = 0, time.perf_counter()
    with open_runtime(args) as runtime:
        for texts in chunked(read_texts(args)):
            with counted_from(count):
                scores = runtime.score(texts, on_long=args.on_long)
            for text, score in zip(texts, scores.tolist(), strict=True):
                if args.json:
                    print(json.dumps({**as_fields(text), "score": score}, ensure_ascii=False))
                else:
                    print(f"{score:.4f}\t{shown(text)}")
            count += len(texts)
    logger.info("scored %d inputs in %.2f s", count, time.perf_counter() - start)
    return 0
