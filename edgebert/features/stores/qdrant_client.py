"""Qdrant's client: where it goes, how it's opened, and its errors as ours."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from warnings import catch_warnings, filterwarnings

from edgebert.errors import InputError, PackageMissingError, StoreError
from edgebert.features.stores.folders import JOURNAL
from edgebert.files import recover_directory, write_text
from edgebert.state import state_directory

_COLLECTION = "entries"  # of a folder
_TIMEOUT_S = 60
_PORT = 6333  # the client's own, of a URL without one
_IN_USE = "already accessed by another instance"  # of the client's own message


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collection is.

    Attributes:
        folder: In local mode.
        url: Of a server, without the collection.
        collection: Its name.
    """

    folder: Path | None
    url: str | None
    collection: str

    @classmethod
    def of(cls, location: str) -> Place:
        """Read a folder, or ``http://host:6333/collection``.

        Raises:
            InputError: A URL names no collection.
        """
        if "://" not in location:
            return cls(Path(location), None, _COLLECTION)
        parts = urlsplit(location)
        before, _, collection = parts.path.rpartition("/")
        if parts.scheme not in ("http", "https") or not parts.hostname or not collection:
            raise InputError(
                f"qdrant:{location!r:.200} names no collection of a server; give "
                "qdrant:http://host:6333/collection, or a folder."
            )
        return cls(None, f"{parts.scheme}://{parts.netloc}{before}", collection)

    def __str__(self) -> str:
        return str(self.folder) if self.url is None else f"{self.url}/{self.collection}"

    def journal(self) -> Path:
        """Say where the journal stands: in the folder; of a server's among what this user keeps.

        That doesn't depend on the folder that a run is begun in, nor on how the URL is spelt.
        """
        if self.folder is not None:
            return self.folder / JOURNAL
        parts = urlsplit(self.url or "")
        facts = (parts.scheme, parts.hostname, parts.port or _PORT, parts.path, self.collection)
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        name = re.sub(r"[^\w.-]+", "-", self.collection)[:60]
        return state_directory() / f"qdrant-{name}-{digest}.{JOURNAL}"


def qdrant_package(install: str) -> Any:
    """Import the client.

    Raises:
        PackageMissingError: It isn't installed.
    """
    try:
        import qdrant_client
    except ModuleNotFoundError as error:
        raise PackageMissingError(
            f"The Qdrant client isn't installed. Install it with: {install}"
        ) from error
    return qdrant_client


def connect(place: Place) -> Any:
    """Give a client; of local mode the folder is made if it isn't there.

    Raises:
        InputError: The folder's ``meta.json`` isn't Qdrant's.
        StoreError: The folder is open elsewhere, or can't be read.
    """
    package = qdrant_package("")
    if place.folder is None:
        key = os.environ.get("QDRANT_API_KEY")
        return package.QdrantClient(
            url=place.url, api_key=key, timeout=_TIMEOUT_S, check_compatibility=False
        )
    with failing(f"qdrant:{place}", "can't be opened"), _quiet():
        meta = place.folder / "meta.json"
        if not meta.exists():  # whole: the client would leave an empty one when it's killed
            meta.parent.mkdir(parents=True, exist_ok=True)
            recover_directory(meta)  # of one that was killed here
            write_text(meta, json.dumps({"collections": {}, "aliases": {}}))
        _check_meta(meta)
        _check_lock(place.folder / ".lock")
        return package.QdrantClient(path=str(place.folder), force_disable_check_same_thread=True)


def _check_meta(meta: Path) -> None:
    try:
        found = json.loads(meta.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"collections", "aliases"} <= set(found):
        raise InputError(
            f"{meta.parent} is no store of Qdrant's, for its meta.json is something else. Give a "
            "folder that is empty or not there."
        )


def _check_lock(lock: Path) -> None:
    """Say who is first before the client does, which then would leave the file open."""
    import portalocker

    if not lock.exists():
        return
    with lock.open("r+") as stream:
        try:
            portalocker.lock(stream, portalocker.LOCK_EX | portalocker.LOCK_NB)
        except portalocker.LockException as error:
            raise RuntimeError(_IN_USE) from error
        portalocker.unlock(stream)


def fold_commits(client: Any, collection: str) -> Callable[[], None]:
    """Let local mode, which commits each point by itself, wait for the disk once a write.

    Returns:
        What waits for it; of a server, or where the client's inside is another, it does nothing.
    """
    local = getattr(getattr(client, "_client", None), "collections", {}).get(collection)
    database = getattr(getattr(local, "storage", None), "storage", None)
    if not isinstance(database, sqlite3.Connection):
        return lambda: None
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")  # whole after a power cut, older if unsynced
    return lambda: database.execute("PRAGMA wal_checkpoint(FULL)").close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out the advice to use a server beyond 20,000 points, which the docs give, too."""
    with catch_warnings():
        filterwarnings("ignore", "Local mode is not recommended", UserWarning)
        yield


@contextmanager
def failing(place: str, what: str) -> Iterator[None]:
    """Turn the client's errors into ours.

    Raises:
        InputError: The server wants another API key.
        StoreError: Anything else, which may pass.
    """
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    try:
        with _quiet():
            yield
    except (ApiException, QdrantException) as error:
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            raise InputError(
                f"{place} {what}: the server refuses the API key. Put the right one into the "
                "environment as QDRANT_API_KEY."
            ) from error
        reason = " ".join(str(getattr(error, "source", error)).split())
        raise StoreError(f"{place} {what}: {reason:.300}") from error
    except (RuntimeError, OSError, sqlite3.Error, ValueError, AssertionError) as error:
        if isinstance(error, InputError):
            raise
        if _IN_USE in str(error):
            raise StoreError(
                f"{place} is open elsewhere, and Qdrant's local mode takes one at a time. Close "
                "it there, or use a server: qdrant:http://host:6333/collection."
            ) from error
        raise StoreError(f"{place} {what}: {error}") from error
