"""One run at a time into a store: a lock that ends with the process, however it ends.

It covers a run into any store, and the switch from an old one to a new one, so it stands beside
both. A folder of plain files has a lock of its own within it, which comes along when it's moved and
keeps out every other writer, also one that is no run: `edgebert.features.stores.catalog`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from edgebert.errors import InputError
from edgebert.features.stores import shown_uri
from edgebert.features.stores.base import Store

_POSTGRES_LOCK = "SELECT pg_try_advisory_lock(hashtext('edgebert'), hashtext(?))"
_TRIES, _PAUSE_SECONDS = 20, 0.1


def place_of(uri: str) -> Path | None:
    """Give the file or folder that a store's URI names; None for a server.

    Raises:
        InputError: It names none, as ``sqlite:`` or ``sqlite:/``.
    """
    scheme, separator, location = uri.partition(":")
    if not separator:
        location = scheme
    elif scheme.startswith("postgres") or "://" in location:
        return None
    place = Path(location)
    if location and place.name in ("", ".."):  # the folder we are in, or one above
        place = place.resolve()
    if not place.name or "\0" in location:
        raise InputError(f"{uri!r:.200} names no file or folder for a store; give it a name.")
    return place


def real_place(uri: str) -> Path | None:
    """Give `place_of`, of a link what it points to: one store has one lock, by whatever name."""
    place = place_of(uri)
    return place.resolve() if place is not None and place.is_symlink() else place


@contextmanager
def locked(place: Path, *, shown: str | None = None) -> Iterator[None]:
    """Hold the lock of a store, the file ``PLACE.lock``, which stays.

    Args:
        place: Of the store, or of its journal.
        shown: What messages call the store.

    Raises:
        InputError: Another process holds it, or the file can't be made.
    """
    path = place.absolute().with_name(f"{place.absolute().name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+b")
    except OSError as error:
        raise InputError(
            f"{path} can't be made ({error.strerror}); name a store in a folder that can be "
            "written to."
        ) from error
    with stream:
        try:
            _take(stream.fileno())
        except OSError as error:
            raise InputError(
                f"Another run is writing to {shown or place} (it holds {path}). Wait for its end."
            ) from error
        yield


def lock_server(store: Store, uri: str, *, name: str) -> AbstractContextManager[None]:
    """Hold the lock of a store that is a server.

    Args:
        store: That has its identity.
        uri: Of the store.
        name: What tells it from others of the same server.

    Raises:
        InputError: Another process holds it.
    """
    path = store.journal_path()
    if path is not None:
        return locked(path, shown=shown_uri(uri))
    database = store.sql()
    if database is None or not uri.startswith("postgres"):
        return nullcontext()
    for _ in range(_TRIES):  # a server frees the lock of a closed connection when it has the time
        if database.execute(_POSTGRES_LOCK, [name])[0][0]:
            return nullcontext()
        time.sleep(_PAUSE_SECONDS)
    raise InputError(f"Another run is writing to {name} of this server. Wait for its end.")


if os.name == "nt":
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
