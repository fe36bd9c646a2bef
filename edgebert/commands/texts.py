"""Input texts of a command: from its arguments, from files, or from stdin, one a line."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

from edgebert.errors import DataError, InputError

logger = logging.getLogger(__name__)

Text: TypeAlias = "str | tuple[str, str]"
T = TypeVar("T")

CHUNK = 1024  # texts a call: enough to sort by length, little enough to print as we go
_BOM = b"\xef\xbb\xbf"


def add_texts(parser: argparse.ArgumentParser, *, pairs: bool) -> None:
    """Declare the texts, ``--input`` and, if asked for, ``--pairs``."""
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="Input; without any, one text a line from stdin"
    )
    parser.add_argument(
        "--input", type=Path, action="append", help="File of one text a line, repeatable"
    )
    if pairs:
        parser.add_argument(
            "--pairs", action="store_true", help="Each input is two texts with a TAB between"
        )
    parser.set_defaults(pairs=False, check_usage=partial(_check_usage, parser))


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.texts and args.input:
        parser.error("give texts or --input, not both")


def read_texts(args: argparse.Namespace) -> Iterator[Text]:
    """Read the texts one by one, in order, empty lines too: one input, one result.

    Raises:
        DataError: A line is not UTF-8, or is no pair where ``--pairs`` asks for one.
        OSError: A file can't be read.
    """
    split = _pair if args.pairs else _single
    if args.texts:
        yield from (split(text, f"argument {i}") for i, text in enumerate(args.texts, start=1))
        return
    for path in args.input or ():
        with path.open("rb") as stream:
            yield from (split(text, where) for text, where in numbered_lines(stream, str(path)))
    if not args.input:
        stream = open_stdin("texts, one a line; end with Ctrl+D (Ctrl+Z on Windows)")
        yield from (split(text, where) for text, where in numbered_lines(stream, "stdin"))


def open_stdin(of: str) -> BinaryIO:
    """Give stdin's bytes; say at a terminal what is waited for.

    Raises:
        DataError: The process was started without one.
    """
    if sys.stdin is None:  # as after `<&-`
        raise DataError("stdin is closed; give the input as arguments, or a file with --input.")
    if sys.stdin.isatty():
        logger.info("reading %s from stdin", of)
    return sys.stdin.buffer


def numbered_lines(stream: BinaryIO, name: str) -> Iterator[tuple[str, str]]:
    """Give each line of a file without its end, and where it is, as ``name:number``.

    Raises:
        DataError: A line is not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        where = f"{name}:{number}"
        if number == 1:
            line = line.removeprefix(_BOM)
        try:
            yield line.rstrip(b"\n").rstrip(b"\r").decode("utf-8"), where
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where} is not UTF-8 ({error.reason} at byte {error.start}); "
                "convert the file, for example with iconv -t UTF-8."
            ) from error


def chunked(texts: Iterable[T], *, size: int = CHUNK) -> Iterator[list[T]]:
    """Cut a stream into lists of ``size`` texts, or of other inputs; the last may be shorter."""
    stream = iter(texts)
    while chunk := list(islice(stream, size)):
        yield chunk


@contextmanager
def counted_from(first: int) -> Iterator[None]:
    """Say in an error about a text of a later chunk where that chunk began."""
    try:
        yield
    except InputError as error:
        if first == 0:
            raise
        raise InputError(f"In the chunk that begins at text {first}: {error}") from error


def shown(text: Text) -> str:
    """Give a text as one line of a table: line ends and TABs as spaces, a pair as two columns."""
    parts = (text,) if isinstance(text, str) else text
    return "\t".join(" ".join(part.split()) for part in parts)


def as_fields(text: Text) -> dict[str, str]:
    """Give a text as fields of a JSON object."""
    if isinstance(text, str):
        return {"text": text}
    return {"text": text[0], "text_pair": text[1]}


def _single(text: str, where: str) -> Text:
    del where
    return text


def _pair(text: str, where: str) -> Text:
    parts = text.split("\t")
    if len(parts) != 2:
        raise DataError(f"{where} has {len(parts) - 1} TABs; --pairs needs one, between two texts.")
    return parts[0], parts[1]
