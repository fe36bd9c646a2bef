"""Folders that are stores: what may stand where a new one begins, and where its journal is."""

from __future__ import annotations

from pathlib import Path

from edgebert.errors import InputError

JOURNAL = "journal.sqlite"


def require_room(folder: Path, *, kind: str, own: tuple[str, ...], read_only: bool) -> None:
    """Refuse a place where no store is, unless one can begin there.

    Args:
        folder: Where one was looked for.
        kind: Of the store, for the message.
        own: How the names begin that one that was killed at its first step may have left.
        read_only: Whether one must be there.

    Raises:
        InputError: Something else stands there, or nothing and it's to be read.
    """
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if folder.is_file() or not all(name.startswith((JOURNAL, *own)) for name in names):
        raise InputError(
            f"What stands at {folder} is no store of {kind}'s that edgebert made. Give a folder "
            "that is empty or not there."
        )
    if read_only:
        raise InputError(f"There is no store at {folder}. Extract into it first.")
