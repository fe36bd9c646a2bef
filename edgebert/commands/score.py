"""``edgebert score``: one number a text, or a pair of texts."""

from __future__ import annotations

import argparse
import json

import edgebert
from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime
from edgebert.commands.results import each_result
from edgebert.commands.texts import Text, add_texts, as_fields, read_texts, shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_texts(parser, pairs=True)
    add_on_long(parser)
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``score<TAB>text`` for each input, or a JSON object a line."""

    def call(runtime: edgebert.Runtime, texts: list[Text]) -> list[float]:
        scores: list[float] = runtime.score(texts, on_long=args.on_long).tolist()
        return scores

    done = "scored %d inputs in %.2f s"
    for _, text, score in each_result(args, read_texts(args), call, done=done):
        if args.json:
            print(json.dumps({**as_fields(text), "score": score}, ensure_ascii=False))
        else:
            print(f"{score:.4f}\t{shown(text)}")
    return 0
