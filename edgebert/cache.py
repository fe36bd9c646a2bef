"""What this machine remembers between runs: small JSON records that may always be lost.

A cache that is off, full or read-only only means that the work is done again.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from pathlib import Path
from typing import Any

from edgebert.files import write_json

logger = logging.getLogger(__name__)

MAX_RECORDS = 256


def cache_directory() -> Path | None:
    """Give the folder, or None when ``EDGEBERT_CACHE`` is ``off`` or there is no home folder.

    ``EDGEBERT_CACHE`` names another folder than the platform's own.
    """
    chosen = os.environ.get("EDGEBERT_CACHE", "")
    if chosen.lower() in ("off", "0", "none"):
        return None
    if chosen:
        return Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return None
    if platform.system() == "Windows":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "edgebert/cache"
    if platform.system() == "Darwin":
        return home / "Library/Caches/edgebert"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "edgebert"


def read_record(key: str) -> Any:
    """Give what was written under ``key``, or None."""
    folder = cache_directory()
    if folder is None:
        return None
    try:
        return json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # the last: nested too deep
        logger.debug("no cached record %s: %s", key, error)
        return None


def write_record(key: str, value: Any) -> bool:
    """Keep ``value`` under ``key``, and drop the oldest records beyond `MAX_RECORDS`.

    Returns:
        Whether it was kept.
    """
    folder = cache_directory()
    if folder is None:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{key}.json", value)
        records = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in records[:-MAX_RECORDS]:
            old.unlink(missing_ok=True)
    except OSError as error:
        logger.debug("the cache %s can't be written (%s); going on without it", folder, error)
        return False
    return True
