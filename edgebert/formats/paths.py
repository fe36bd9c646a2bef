"""Which paths a manifest may name: those that mean one file, in the bundle, on every system."""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgebert.errors import ManifestError

MAX_PATH = 240  # Windows allows 260 with the folder that the bundle is in
# Plain ASCII: no two spellings of one name, nothing that a terminal shows as something else, and
# none of the characters that mean a drive, a stream, a pattern or a folder to Windows.
_PART = re.compile(r"[A-Za-z0-9_+=@,~#%&!()\[\]{} .-]+")
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE
)


def check_path(path: str) -> None:
    """Make sure that a path stays in the bundle and can be written on every system.

    Raises:
        ManifestError: It is absolute, has ``..``, a backslash, a drive, an empty part, a name that
            Windows reserves or changes, or anything but plain ASCII.
    """
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        raise ManifestError(f"File path {path!r:.300} leaves the bundle.")
    if not path or len(path) > MAX_PATH:
        raise ManifestError(
            f"File path {path!r:.80} has {len(path)} characters; allowed are 1 to {MAX_PATH}."
        )
    for part in parts:
        odd = part.endswith((".", " ")) or part.startswith(" ") or _RESERVED.fullmatch(part)
        if odd or not _PART.fullmatch(part):
            raise ManifestError(
                f"File path {path!r} has the part {part!r}; parts are plain ASCII letters, digits "
                "and signs that every system takes, without a dot or space at the end."
            )


def check_distinct(paths: Iterable[str]) -> None:
    """Make sure that different paths are different files where case doesn't count, too.

    Args:
        paths: Checked by `check_path`, so plain ASCII.

    Raises:
        ManifestError: Two of them differ in case only.
    """
    spelled: dict[str, str] = {}
    for path in paths:
        other = spelled.setdefault(path.lower(), path)
        if other != path:
            raise ManifestError(f"File paths {other!r} and {path!r} differ in case only.")
