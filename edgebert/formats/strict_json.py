"""Read JSON that a stranger wrote: bounded, and with one meaning only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAX_BYTES = 16 << 20  # a bundle of six artifacts with 12,000 golden numbers each takes 1.5 MB
MAX_VALUES = 1_000_000  # each costs up to 72 bytes once it is read
_MAX_DIGITS = 18  # of a whole number: it fits in 64 bits


def read_json(path: Path) -> tuple[Any, bytes]:
    """Read a file of JSON.

    Returns:
        What it holds, and its bytes.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It can't be read.
        ValueError: It is no regular file, is larger than `MAX_BYTES`, or see `parse_json`.
    """
    if not path.is_file():
        if path.exists():
            raise ValueError("it is no regular file")  # reading a pipe would wait for ever
        raise FileNotFoundError(path)
    size_bytes = path.stat().st_size
    if size_bytes > MAX_BYTES:
        raise ValueError(f"it has {size_bytes} bytes, more than {MAX_BYTES}")
    with path.open("rb") as stream:
        data = stream.read(size_bytes)  # and no more, should it grow
    return parse_json(data), data


def parse_json(data: bytes) -> Any:
    """Parse UTF-8 JSON, without what two readers may take differently.

    Raises:
        ValueError: It is no JSON, or has more than `MAX_BYTES` or `MAX_VALUES`, a key twice, NaN or
            infinity, a whole number of more than 18 digits, half a surrogate pair, or is nested too
            deep.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    # Every value but the first of its list or object comes after a comma. Counted before parsing,
    # as "[],[],[]" takes twenty times its size in memory.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES} values")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has the key {max(names, key=names.count)!r:.80} twice")
    for name, value in pairs:
        _check_text(name)
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str):
                _check_text(text)
            elif isinstance(text, float) and text in (float("inf"), float("-inf")):
                raise ValueError(f"{name!r:.80} has a number that is too large")  # as 1e999
    return found


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError("it has half a surrogate pair in a text") from error


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > _MAX_DIGITS:
        raise ValueError(f"it has a whole number of more than {_MAX_DIGITS} digits: {digits:.20}…")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"it has the number {name}, which is not JSON")
