"""Files that are written whole or not at all, and their hashes."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgebert.errors import InputError

_CHUNK_BYTES = 1 << 20


def sha256_file(path: Path) -> str:
    """Hash a file's bytes, in hex, without reading it into memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole: a crash leaves the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file whole, with line ends as they are."""
    write_bytes(path, text.encode("utf-8"))


# Between a bracket and a line break, which no string of JSON can hold.
_NUMBERS = re.compile(r"\[\n[-+.\deE,\s]+\]")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole, indented, keys in the order given. NaN is refused.

    A list of numbers has one line, however long: a vector a number a line is twice the bytes.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, _NUMBERS.sub(_one_line, text) + "\n")


def _one_line(numbers: re.Match[str]) -> str:
    return f"[{' '.join(numbers[0][1:-1].split())}]"


def sync_directory(path: Path) -> None:
    """Make renames in ``path`` last through a power cut, where the system can."""
    if os.name == "nt":  # Windows can't open a directory
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """Give an empty directory beside ``target`` that takes its place when the block ends well.

    After an error the directory is removed, and what stood at ``target`` is as it was. What a
    killed process left behind is put right first.
    """
    check_writable(target)
    recover_directory(target)
    building = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        for path in sorted(building.rglob("*")):
            if path.is_file():
                with path.open("rb+") as stream:
                    os.fsync(stream.fileno())
            else:
                sync_directory(path)
        sync_directory(building)
        _replace_directory(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _replace_directory(new: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        target.replace(old)
    new.replace(target)
    sync_directory(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def recover_directory(target: Path) -> None:
    """Remove what processes that are gone left half-built, and put back what they had set aside.

    A process killed between the two renames of a replacement leaves no ``target`` but its old
    form under another name.
    """
    for path in sorted(target.absolute().parent.glob(f".{glob.escape(target.name)}.*")):
        pid, _, kind = path.name.removeprefix(f".{target.name}.").rpartition(".")
        if kind not in ("part", "old") or not pid.isdigit() or _is_running(int(pid)):
            continue
        if kind == "old" and not target.exists():
            path.replace(target)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # there signal 0 would end the process
        return pid == os.getpid()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def check_writable(target: Path) -> None:
    """Make sure, before any work, that the directory ``target`` can be written.

    Raises:
        InputError: It is a file, or the nearest folder above it can't be written to.
    """
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; give the path of a directory.")
    check_parent(target)


def check_parent(target: Path) -> None:
    """Make sure, before any work, that the folder of ``target`` is there and can be written to.

    Raises:
        InputError: The nearest folder above it can't be written to.
    """
    parent = target.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        probe = parent / f".edgebert-{os.getpid()}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"Can't write to {parent} ({error.strerror}); give a folder that can be written."
        ) from error
