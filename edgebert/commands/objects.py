"""Inputs of a command that are more than a text: one JSON object a line, of files or of stdin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from edgebert.commands.texts import numbered_lines, open_stdin
from edgebert.errors import DataError


def read_objects(paths: Sequence[Path], *, fields: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Read JSON objects one by one; a line of white space is none.

    Args:
        paths: The files; none for stdin.
        fields: What an object must hold, in words.

    Yields:
        An object, and where it is, as ``name:number``.

    Raises:
        DataError: A line is not UTF-8, or no JSON object.
        OSError: A file can't be read.
    """
    for path in paths:
        with path.open("rb") as stream:
            yield from _objects(stream, str(path), fields)
    if not paths:
        yield from _objects(open_stdin(f"JSON lines with {fields}"), "stdin", fields)


def _objects(stream: BinaryIO, name: str, fields: str) -> Iterator[tuple[dict[str, Any], str]]:
    for line, where in numbered_lines(stream, name):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is no JSON ({error}); give one object a line.") from error
        if not isinstance(row, dict):
            raise DataError(f"{where} needs a JSON object with {fields}, not {row!r:.40}.")
        yield row, where
