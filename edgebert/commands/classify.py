"""``edgebert classify``: one label a text, or any number of them for a multi-label bundle."""

from __future__ import annotations

import argparse
import json

import edgebert
from edgebert.commands.arguments import add_bundle, add_exits, add_on_long, add_runtime, positive
from edgebert.commands.results import each_result
from edgebert.commands.texts import Text, add_texts, as_fields, read_texts, shown
from edgebert.types import Classification


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_texts(parser, pairs=True)
    parser.add_argument(
        "--top-k", type=positive, help="Scores of the best so many labels (with --json)"
    )
    add_on_long(parser)
    add_runtime(parser)
    add_exits(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``label<TAB>score<TAB>text`` for each input, or a JSON object a line.

    Labels of a multi-label bundle are joined with ``|``, as in its training files; none at all
    is an empty first column.
    """

    def call(runtime: edgebert.Runtime, texts: list[Text]) -> list[Classification]:
        return runtime.classify(texts, top_k=args.top_k, on_long=args.on_long)

    done = "classified %d texts in %.2f s"
    for _, text, result in each_result(args, read_texts(args), call, done=done):
        print(_json(text, result) if args.json else _row(text, result))
    return 0


def _row(text: Text, result: Classification) -> str:
    return f"{'|'.join(result.labels)}\t{result.score:.4f}\t{shown(text)}"


def _json(text: Text, result: Classification) -> str:
    fields = {
        **as_fields(text),
        "label": result.label,
        "score": result.score,
        "scores": result.scores,
        "labels": list(result.labels),
        "dropped_tokens": result.dropped_tokens,
    }
    if result.exit_layer is not None:
        fields["exit_layer"] = result.exit_layer
    return json.dumps(fields, ensure_ascii=False)
