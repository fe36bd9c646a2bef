"""A store that is made anew beside the old one, and takes its place when it's whole."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from edgebert.errors import EdgeBertError, InputError
from edgebert.features.lock import real_place
from edgebert.features.stores import open_store
from edgebert.files import sync_directory


def new_place(uri: str) -> tuple[Path, str]:
    """Give a store's place, and the URI of the one that is made beside it, ``PLACE.new``.

    Raises:
        InputError: The store is a server's, where no rename can switch over.
    """
    place = real_place(uri)
    if place is None:
        raise InputError(
            f"--into-new isn't offered for {uri.partition(':')[0]}, where nothing can be renamed "
            "at once; extract into another table or collection, and let your readers switch."
        )
    new = _new(place)
    scheme = uri.partition(":")[0] if ":" in uri else "sqlite"
    return place, f"{scheme}:{new}"


def require_store(place: Path, uri: str) -> None:
    """Make sure, before any work, that what is to be replaced is a store, or nothing.

    Raises:
        InputError: It's something else, which would be lost.
        StoreError: It can't be opened.
    """
    if not place.exists():
        return
    try:
        with open_store(uri):
            pass
    except InputError as error:
        raise InputError(
            f"{error} --into-new replaces nothing else; move it away if it may go."
        ) from error


def finish_switch(place: Path) -> None:
    """Put right what a kill between two renames left: the old store, set aside, and no other."""
    old, new = _old(place), _new(place)
    if not old.exists():
        return
    if not place.exists():
        (new if new.exists() else old).replace(place)
    if old.exists():
        _remove(old)


def switch(place: Path, uri: str) -> None:
    """Let the new store, which is closed, take the place of the old one.

    A file is replaced in one step. A folder takes two; a run that is killed between them is put
    right by the next one, see `finish_switch`.

    Args:
        place: Of the old one.
        uri: Of the old one.

    Raises:
        InputError: The old store is being written to.
    """
    new, old = _new(place), _old(place)
    if place.is_file():
        _close_log(place, uri)
    if place.is_dir():
        place.replace(old)
    new.replace(place)
    sync_directory(place.absolute().parent)
    if old.exists():
        _remove(old)


def _close_log(place: Path, uri: str) -> None:
    """Remove the files beside an old SQLite or DuckDB store, or they'd be taken for the new one's.

    Raises:
        InputError: Another process has it open, and would go on writing such a file.
    """
    opened = False
    with suppress(EdgeBertError), open_store(uri) as store:  # it may be damaged, and is to go
        len(store)  # whoever closes it last brings its log into it
        opened = True
    logs = [place.with_name(place.name + ending) for ending in ("-wal", "-shm", ".wal")]
    left = [log for log in logs if log.exists() and log.stat().st_size and log != logs[1]]
    if left or (uri.startswith("duckdb:") and not opened):  # it opens for one process alone
        raise InputError(
            f"{place} is open in another process, so {_new(place)} can't take its place. Close it "
            "and run the same command again, which does no more than that."
        )
    for log in logs:
        log.unlink(missing_ok=True)


def _new(place: Path) -> Path:
    return place.absolute().with_name(f"{place.absolute().name}.new")


def _old(place: Path) -> Path:
    return place.absolute().with_name(f".{place.absolute().name}.edgebert-old")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
