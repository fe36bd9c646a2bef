"""``edgebert answer``: answers to questions, each with the context that may hold it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import edgebert
from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime, positive
from edgebert.commands.objects import read_objects
from edgebert.commands.results import each_result
from edgebert.commands.texts import shown
from edgebert.errors import DataError
from edgebert.types import Answer

_CHUNK = 64  # contexts are long, so print more often than for other texts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    parser.add_argument("--question", help="Question, together with --context")
    parser.add_argument("--context", help="Text that may hold the answer")
    parser.add_argument(
        "--input",
        type=Path,
        action="append",
        help="JSON lines with question and context, repeatable (default: from stdin)",
    )
    parser.add_argument(
        "--top-k", type=positive, default=1, help="Most answers to a question (default: 1)"
    )
    add_on_long(parser)
    add_runtime(parser)
    parser.set_defaults(check_usage=partial(_check_usage, parser))


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if (args.question is None) != (args.context is None):
        parser.error("give --question and --context together")
    if args.question is not None and args.input:
        parser.error("give --question or --input, not both")


def run(args: argparse.Namespace) -> int:
    """Print ``number<TAB>score<TAB>start<TAB>end<TAB>answer`` for each answer.

    The number is the question's, from 1. An empty answer says that the context holds none. With
    ``--json`` each question is a line.
    """

    def call(runtime: edgebert.Runtime, pairs: list[tuple[str, str]]) -> list[list[Answer]]:
        return runtime.answer(pairs, top_k=args.top_k, on_long=args.on_long)

    done = "answered %d questions in %.2f s"
    for number, pair, answers in each_result(args, _pairs(args), call, done=done, size=_CHUNK):
        if args.json:
            print(_json(pair[0], answers))
        for answer in () if args.json else answers:
            print(_row(number, answer))
    return 0


def _pairs(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    if args.question is not None:
        yield args.question, args.context
        return
    for row, where in read_objects(args.input or (), fields="question and context"):
        question, context = row.get("question"), row.get("context")
        if not isinstance(question, str) or not isinstance(context, str):
            raise DataError(f"{where} needs the texts 'question' and 'context'.")
        yield question, context


def _row(number: int, answer: Answer) -> str:
    return f"{number}\t{answer.score:.4f}\t{answer.start}\t{answer.end}\t{shown(answer.text)}"


def _json(question: str, answers: list[Answer]) -> str:
    fields = {"question": question, "answers": [asdict(answer) for answer in answers]}
    return json.dumps(fields, ensure_ascii=False)
