"""``edgebert choose``: which of several texts fits a prompt best."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import edgebert
from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime
from edgebert.commands.objects import read_objects
from edgebert.commands.results import each_result
from edgebert.commands.texts import shown
from edgebert.errors import DataError
from edgebert.types import Choice

_CHUNK = 64  # prompts; each is several texts
_Question = tuple[str, list[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    parser.add_argument("--prompt", help="What a choice has to fit, together with --choice")
    parser.add_argument(
        "--choice", action="append", help="A text that may fit, repeatable, any number of them"
    )
    parser.add_argument(
        "--input",
        type=Path,
        action="append",
        help="JSON lines with prompt and choices, repeatable (default: from stdin)",
    )
    add_on_long(parser)
    add_runtime(parser)
    parser.set_defaults(check_usage=partial(_check_usage, parser))


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if (args.prompt is None) != (args.choice is None):
        parser.error("give --prompt and --choice together")
    if args.prompt is not None and args.input:
        parser.error("give --prompt or --input, not both")


def run(args: argparse.Namespace) -> int:
    """Print ``number<TAB>index<TAB>score<TAB>choice`` for each prompt: its best choice.

    The number is the prompt's, from 1, and the index the choice's, from 0. With ``--json`` each
    prompt is an object with the scores of all its choices.
    """

    def call(runtime: edgebert.Runtime, questions: list[_Question]) -> list[Choice]:
        return runtime.choose(questions, on_long=args.on_long)

    done = "chose for %d prompts in %.2f s"
    for number, one, result in each_result(args, _questions(args), call, done=done, size=_CHUNK):
        print(_json(one, result) if args.json else _row(number, result))
    return 0


def _questions(args: argparse.Namespace) -> Iterator[_Question]:
    if args.prompt is not None:
        yield args.prompt, args.choice
        return
    for row, where in read_objects(args.input or (), fields="prompt and choices"):
        prompt, choices = row.get("prompt"), row.get("choices")
        texts = choices if isinstance(choices, list) else []
        if not isinstance(prompt, str) or not texts or not all(isinstance(t, str) for t in texts):
            raise DataError(f"{where} needs the text 'prompt' and the list of texts 'choices'.")
        yield prompt, texts


def _row(number: int, result: Choice) -> str:
    return f"{number}\t{result.index}\t{result.score:.4f}\t{shown(result.text)}"


def _json(question: _Question, result: Choice) -> str:
    fields = {"prompt": question[0], "choices": question[1], **asdict(result)}
    return json.dumps(fields, ensure_ascii=False)
