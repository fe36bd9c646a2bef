"""Words and their tags: from a table's lists to sentences that know where each word stands."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import accumulate
from typing import Any

from compress.data.cells import Table
from compress.data.columns import find_column, text_fault
from compress.data.task_data import Split, make_split
from edgebert.tasks.tagging import OUTSIDE

TOKEN_NAMES = ("tokens", "words")
TAG_NAMES = ("tags", "ner_tags")

_PLACED = re.compile(r"[BIMELSU](-.+)?", re.DOTALL)  # a tag that says where in an entity it stands


def tagged_split(
    table: Table,
    *,
    name: str,
    tokens: str | None = None,
    tags: str | None = None,
    tags_optional: bool = False,
    known: Collection[str] | None = None,
) -> Split:
    """Read sentences of words, each with a tag.

    Args:
        table: A CoNLL file, or one with a column of lists of words and one of lists of tags.
        name: Of the split.
        tokens: Column asked for, or None.
        tags: Column asked for, or None.
        tags_optional: Whether a file without tags is fine.
        known: The tags that are allowed; None for all.

    Returns:
        The words of a sentence joined by one space.

    Raises:
        DataError: A column is missing, or rows are bad: words that are no texts, another number of
            tags than of words, a tag unlike the others or an unknown one. All are named.
    """
    token_column = find_column(table, tokens, TOKEN_NAMES, "--text-column") or ""
    tag_column = find_column(table, tags, TAG_NAMES, "--label-column", optional=tags_optional)
    words = table.columns[token_column]
    for row, cell in enumerate(words):
        _check_words(table, row, cell, token_column)
    labels = None
    if tag_column is not None:
        labels = table.columns[tag_column]
        _check_tags(table, words, labels, known)
    table.bad.raise_if_any()
    return make_split(
        name,
        table.source,
        [" ".join(one) for one in words],
        labels=None if labels is None else [tuple(one) for one in labels],
        word_spans=[word_spans(one) for one in words],
    )


def word_spans(words: Collection[str]) -> list[tuple[int, int]]:
    """Say where words stand that are joined by one space: start and end of each."""
    ends = accumulate(words, lambda end, word: end + 1 + len(word), initial=-1)
    return [(before + 1, before + 1 + len(word)) for before, word in zip(ends, words, strict=False)]


def _check_words(table: Table, row: int, cell: Any, column: str) -> None:
    if not isinstance(cell, list) or not cell:
        what = "no words" if cell in (None, []) else f"a {type(cell).__name__}, not a list of words"
        table.bad.add(table.lines[row], f"column {column!r} holds {what}")
        return
    for place, word in enumerate(cell):
        fault = text_fault(word, f"word {place + 1}")
        if fault is not None:
            table.bad.add(_line(table, row, place), fault)


def _check_tags(
    table: Table, words: list[Any], labels: list[Any], known: Collection[str] | None
) -> None:
    found = {tag for cell in labels if isinstance(cell, list) for tag in cell if _is_name(tag)}
    placed = any(_PLACED.fullmatch(tag) and "-" in tag for tag in found)
    for row, (one, cell) in enumerate(zip(words, labels, strict=True)):
        if not isinstance(cell, list):
            table.bad.add(table.lines[row], f"the tags are a {type(cell).__name__}, not a list")
        elif isinstance(one, list) and len(one) != len(cell):
            table.bad.add(table.lines[row], f"{len(one)} words but {len(cell)} tags")
        else:
            for place, tag in enumerate(cell):
                fault = _tag_fault(tag, placed, known)
                if fault is not None:
                    table.bad.add(_line(table, row, place), fault)


def _tag_fault(tag: Any, placed: bool, known: Collection[str] | None) -> str | None:
    if not _is_name(tag):
        return f"the tag is {tag!r:.40}; its name is needed, like B-PER"
    if placed and tag != OUTSIDE and not _PLACED.fullmatch(tag):
        return f"the tag {tag!r} is unlike the others: O, or B-, I-, E-, S- and a type"
    if known is not None and tag not in known:
        return f"the tag {tag!r} is not in the train data"
    return None


def _is_name(tag: Any) -> bool:
    return isinstance(tag, str) and bool(tag.strip()) and not tag.isdecimal()


def _line(table: Table, row: int, place: int) -> int:
    return table.lines[row] + (place if table.item_lines else 0)
