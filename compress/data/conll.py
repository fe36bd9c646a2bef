"""CoNLL files: a word a line with its tag, a blank line behind each sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compress.data.cells import BadRows, Table

BLANK = " \t\r\ufeff"  # a line of these alone ends a sentence; WNUT-17 has tabs and a late BOM
_DOCUMENT = "-DOCSTART-"
_LANGUAGE = re.compile(r"([a-z]{2,3}(?:-[a-z]+)*):")


def conll_table(lines: Iterable[tuple[int, str]], bad: BadRows) -> Table:
    """Read sentences as rows of two columns, ``tokens`` and ``tags``.

    Columns are separated by tabs where a line has one, else by spaces; the first is the word, the
    last its tag. Lines that start with ``-DOCSTART-`` are left out. A language in front of every
    word of the file, as in WikiANN's ``en:Paris``, is taken off.

    Args:
        lines: Number and text of each line.
        bad: Gets the lines without a tag.

    Returns:
        The line of a row is that of its first word; those of the others follow without a gap.
    """
    sentences: list[tuple[int, list[str], list[str]]] = []
    inside = False
    for number, line in lines:
        if not line.strip(BLANK) or line.startswith(_DOCUMENT):
            inside = False
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < 2:
            bad.add(number, f"one column ({cells[0]!r:.40}); a word and its tag are needed")
            continue
        if not inside:
            sentences.append((number, [], []))
            inside = True
        sentences[-1][1].append(cells[0].strip())
        sentences[-1][2].append(cells[-1].strip())
    tokens = [words for _, words, _ in sentences]
    columns = {"tokens": _without_language(tokens), "tags": [tags for _, _, tags in sentences]}
    return Table(columns, [number for number, _, _ in sentences], bad, item_lines=True)


def _without_language(sentences: list[list[str]]) -> list[list[str]]:
    words = [word for sentence in sentences for word in sentence]
    match = _LANGUAGE.match(words[0]) if words else None
    if match is None or not all(word.startswith(match[0]) for word in words):
        return sentences
    return [[word[len(match[0]) :] for word in sentence] for sentence in sentences]
