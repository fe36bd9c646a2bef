"""Files of a folder that take their places together, once the catalog says so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebert.errors import StoreError
from edgebert.files import sync_directory

INNER = "_edgebert"  # what is ours alone; who reads a folder of Parquet skips such names


def staged(folder: Path, generation: int) -> Path:
    """Name the folder in which the files of a generation wait for their places."""
    return folder / INNER / f"next-{generation}"


def path_now(folder: Path, generation: int, name: str) -> Path:
    """Say where a file of the catalog's generation stands: staged yet, or in its place.

    Args:
        folder: Of the store.
        generation: What the catalog says.
        name: Relative to the folder.
    """
    waiting = staged(folder, generation) / name
    return waiting if waiting.exists() else folder / name


def begin(folder: Path, generation: int) -> Path:
    """Give an empty folder for the files of the next generation."""
    place = staged(folder, generation)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def sync(place: Path) -> None:
    """Make what was staged outlive a power cut."""
    for path in sorted(place.rglob("*")):
        if path.is_file():
            with path.open("rb+") as stream:
                os.fsync(stream.fileno())
        else:
            sync_directory(path)
    sync_directory(place)
    sync_directory(place.parent)


def take_places(folder: Path, generation: int) -> None:
    """Move what is staged for the catalog's generation, and remove what was for none.

    Done again after a cut, it does the rest.
    """
    place = staged(folder, generation)
    moved = [path for path in sorted(place.rglob("*")) if path.is_file()]
    for path in moved:
        path.replace(folder / path.relative_to(place))
    for parent in sorted({(folder / path.relative_to(place)).parent for path in moved}):
        sync_directory(parent)
    for left in (folder / INNER).glob("next-*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def storing(place: str) -> Iterator[None]:
    """Turn what the system refuses, such as room on the disk, into an error of ours.

    Raises:
        StoreError: It refused something.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{place} can't be read or written ({error}). Once it can, the same again works."
        ) from error
