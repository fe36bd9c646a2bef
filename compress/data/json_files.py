"""JSON files as tables: an object a line, a list of objects, or articles as SQuAD has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from compress.data.cells import BadRows, Table
from edgebert.errors import DataError

Row: TypeAlias = tuple[int, dict[str, Any]]  # line or number of the row, from 1


def jsonl_table(lines: Iterable[tuple[int, str]], bad: BadRows) -> Table:
    """Read one object a line; a missing key gives None."""
    rows: list[Row] = []
    for number, line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            bad.add(number, f"not JSON ({error})" if line.strip() else "empty line")
            continue
        _add(rows, number, value, bad)
    return _table(rows, bad)


def json_table(data: bytes, bad: BadRows) -> Table:
    """Read a list of objects, or ``{"data": […]}`` of objects or of SQuAD's articles.

    Articles give a row a question: ``id``, ``question``, ``context``, ``answers`` and, where the
    file has it, ``is_impossible``.

    Raises:
        DataError: It is not JSON, or holds something else.
    """
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{bad.source} is not JSON ({error}).") from error
    if isinstance(value, dict):
        value = value.get("data")
    if not isinstance(value, list):
        raise DataError(
            f"{bad.source} holds neither a list of objects nor SQuAD's 'data'; give one object a "
            "line as .jsonl."
        )
    rows: list[Row] = []
    nested = any(isinstance(item, dict) and "paragraphs" in item for item in value)
    for number, item in enumerate(_questions(value, bad.source) if nested else value, start=1):
        _add(rows, number, item, bad)
    return _table(rows, bad)


def _questions(articles: list[Any], source: str) -> Iterator[dict[str, Any]]:
    try:
        for article in articles:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    yield {**question, "context": paragraph["context"]}
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{source} has an article that is not as SQuAD's ({type(error).__name__}: {error}); "
            "each has 'paragraphs', each of these a 'context' and 'qas'."
        ) from error


def _add(rows: list[Row], number: int, value: Any, bad: BadRows) -> None:
    if isinstance(value, dict):
        rows.append((number, value))
    else:
        bad.add(number, f"holds a {type(value).__name__}, not an object")


def _table(rows: list[Row], bad: BadRows) -> Table:
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    columns = {name: [row.get(name) for _, row in rows] for name in names}
    return Table(columns, [number for number, _ in rows], bad)
