"""What must not be lost between runs, of places that have no folder of their own, like a server."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from edgebert.errors import InputError

VARIABLE = "EDGEBERT_STATE"


def state_directory() -> Path:
    """Give the folder, made if it isn't there; ``EDGEBERT_STATE`` names another.

    Raises:
        InputError: There is no home folder, or the folder can't be made.
    """
    chosen = os.environ.get(VARIABLE)
    remedy = f"Set {VARIABLE} to a folder that stays and can be written to."
    try:
        folder = Path(chosen).absolute() if chosen else _of_platform()
        folder.mkdir(parents=True, exist_ok=True)
    except RuntimeError as error:  # a user without a home
        raise InputError(f"There is no home folder to keep journals in. {remedy}") from error
    except OSError as error:
        raise InputError(
            f"{chosen or error.filename} can't be made ({error.strerror}). {remedy}"
        ) from error
    return folder


def _of_platform() -> Path:
    home = Path.home()
    if platform.system() == "Windows":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "edgebert/state"
    if platform.system() == "Darwin":
        return home / "Library/Application Support/edgebert"
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state") / "edgebert"
