"""LanceDB as a package: how it's imported and opened so that it stays small."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from edgebert.errors import PackageMissingError

_INDEX_CACHE_BYTES, _FILES_CACHE_BYTES = 128 << 20, 32 << 20
_M_ARENA_MAX = -8  # of glibc's malloc.h
_ORIGIN = re.compile(r",?\s*\S+\.rs:\d+(:\d+)?")  # where in its own source the package failed


def lancedb_package(install: str) -> Any:
    """Import LanceDB.

    Raises:
        PackageMissingError: It isn't installed.
    """
    _spare_memory()  # before the package starts threads
    try:
        import lancedb
    except ModuleNotFoundError as error:
        raise PackageMissingError(f"LanceDB isn't installed. Install it with: {install}") from error
    return lancedb


def connect(folder: Path) -> Any:
    """Open a folder of tables, each read of which sees the last version."""
    import lancedb

    caches = lancedb.Session(_INDEX_CACHE_BYTES, _FILES_CACHE_BYTES)  # instead of 7 GB
    return lancedb.connect(folder, read_consistency_interval=timedelta(0), session=caches)


def give_back() -> None:
    """Hand to the system what glibc keeps of memory that is free.

    A write compares its ids with all that are there, and tidying makes many files one: they leave
    30 to 120 MB of it, which in a long run looks like a leak.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def _spare_memory() -> None:
    """Keep LanceDB from reading 2 GB ahead, and glibc from a heap for each of its many threads.

    Writing 100,000 vectors float32 [384] in blocks of 256 then peaks at 470 MB instead of 650.
    """
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(32 << 20))
    os.environ.setdefault("LANCE_DEFAULT_BATCH_SIZE", "1024")  # rows; 8192 of float32 are 13 MB
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def reason_of(error: Exception) -> str:
    """Give the text of an error of LanceDB's in one line, without files of who built it."""
    return _ORIGIN.sub("", " ".join(str(error).split()))
