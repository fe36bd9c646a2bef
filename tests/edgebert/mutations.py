"""Files of a bundle as an attacker or a bad disk leaves them; of one seed, always the same."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

VALUES = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53, 10**17, 1.5, -0.0, 1e308, "", "x", "\u0000", "é"),
    *("../x", "/etc/passwd", "a" * 5000, [], {}, [[]], [None], {"a": 1}, "[UNK]", "NaN", "1"),
)
RAW = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 400,
    "[" * 2000,
    '"\\ud800"',
    '{"a":1,"a":2}',
    "01",
    "'x'",
)
NUMBERS = ("0", "-1", "1", "4294967296", "18446744073709551615", "", "x", "1e9", "2147483647")


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Delete, replace, repeat or rename one part of a JSON file, or break its text."""
    kind = rng.randrange(6)
    if kind == 0:
        return mutate_bytes(content, rng)
    data = json.loads(content)
    holder, key = _place(data, rng)
    if kind == 1:
        del holder[key]
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice(("extra", "task", "path", "type", str(key) + " "))] = holder[key]
    elif kind == 2:
        holder.insert(key, holder[key])
    elif kind == 3:  # what json.dumps can't write
        holder[key] = "RAW"
        return json.dumps(data).replace('"RAW"', rng.choice(RAW), 1).encode("utf-8")
    elif kind == 4 and isinstance(holder[key], int | float):
        holder[key] = _number(holder[key], rng)
    else:
        holder[key] = rng.choice(VALUES)
    return json.dumps(data).encode("utf-8")


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, overwrite, cut, insert, repeat or exchange bytes, most of them near the start."""
    data = bytearray(content)
    if not data:
        return b"x"
    span = len(data) if rng.random() < 0.4 else min(len(data), 512)
    at = rng.randrange(span)
    size = min(rng.choice((1, 2, 4, 8, 64)), len(data) - at)
    kind = rng.randrange(7)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at : at + size] = rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * size
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + size]
    elif kind == 4:
        data[at:at] = rng.randbytes(size)
    elif kind == 5:
        other = rng.randrange(len(data))
        data[at : at + size] = data[other : other + size]
    else:
        data[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 2**31 - 1, 2**32 - 1, len(data))))
    return bytes(data)


def mutate_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Change what the header says of itself or of a tensor."""
    size = struct.unpack("<Q", content[:8])[0]
    header, rest = content[8 : 8 + size], content[8 + size :]
    kind = rng.randrange(3)
    if kind == 0:
        lie = rng.choice((0, 1, size - 1, size + 1, len(content), 2**32, 2**63, 2**64 - 1))
        return struct.pack("<Q", lie) + header + rest
    if kind == 1:
        return mutate_bytes(content, rng)
    header = mutate_json(header, rng)
    return struct.pack("<Q", len(header)) + header + rest


def mutate_xml(content: bytes, rng: random.Random) -> bytes:
    """Change an attribute, or delete, repeat or nest an element."""
    kind = rng.randrange(6)
    if kind == 0:
        return mutate_bytes(content, rng)
    text = content.decode("utf-8")
    if kind in (1, 2, 3):
        found = rng.choice(list(re.finditer(r'([\w-]+)="([^"]*)"', text)))
        value = rng.choice((*NUMBERS, *re.findall(r'="([^"]*)"', text), "../x", "&a;", "a" * 9000))
        if kind == 3:
            return (text[: found.start()] + text[found.end() :]).encode()
        return (text[: found.start(2)] + value + text[found.end(2) :]).encode()
    found = rng.choice(list(re.finditer(r"<(\w+)[^<>]*?(/>|>[^<>]*</\1>)", text)))
    if kind == 4:
        return (text[: found.start()] + text[found.end() :]).encode()
    times = rng.choice((2, 2, 2, 1000))
    return (text[: found.start()] + found[0] * times + text[found.end() :]).encode()


def mutate_protobuf(content: bytes, rng: random.Random) -> bytes:
    """Change a field of a protobuf where it is known to be one: its number, size or content."""
    if rng.random() < 0.4:
        return mutate_bytes(content, rng)
    fields = _fields(content, 0, len(content), depth=0)
    start, first, end = rng.choice(fields)
    kind = rng.randrange(4)
    if kind == 0:
        return content[:start] + content[end:]  # sizes above it are wrong now
    if kind == 1:
        return content[:start] + content[start:end] * 2 + content[end:]
    data = bytearray(content)
    if kind == 2:
        data[start] = rng.randrange(256)
    elif end > first:
        at = rng.randrange(first, end)
        data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(data)


MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": mutate_json,
    ".safetensors": mutate_safetensors,
    ".xml": mutate_xml,
    ".onnx": mutate_protobuf,
    ".bin": mutate_bytes,
    ".tflite": mutate_bytes,
}


def mutate(name: str, content: bytes, seed: int) -> bytes:
    """Give another content for a file, by the kind of file that its name says; never the same."""
    rng = random.Random(f"{name} {seed}")
    while True:
        changed = MUTATORS[name[name.rindex(".") :]](content, rng)
        if changed != content:
            return changed


def _place(data: Any, rng: random.Random) -> tuple[Any, Any]:
    """Give a holder and a key in it, any depth as likely as another."""
    places = []
    while isinstance(data, dict | list) and data:
        key = rng.choice(list(data)) if isinstance(data, dict) else rng.randrange(len(data))
        places.append((data, key))
        data = data[key]
    return rng.choice(places)


def _number(value: float, rng: random.Random) -> float:
    return rng.choice((-value, value + 1, value * 2, value * 1e12, value / 2, int(value) ^ 1, 0))


def _fields(content: bytes, place: int, end: int, *, depth: int) -> list[tuple[int, int, int]]:
    """Give start, content's start and end of each field, of fields within fields, too."""
    found = []
    while place < end:
        start, tag = place, content[place]
        place += 1
        if tag & 7 == 0:
            first = place
            while place < end and content[place] >= 0x80:
                place += 1
            place += 1
        elif tag & 7 == 2:
            size = shift = 0
            while place < end:
                byte = content[place]
                size |= (byte & 0x7F) << shift
                place, shift = place + 1, shift + 7
                if byte < 0x80:
                    break
            first, place = place, place + size
        else:
            break
        if place > end:
            break
        found.append((start, first, place))
        if tag & 7 == 2 and depth < 4 and place - first > 1:
            found += _fields(content, first, place, depth=depth + 1)
    return found
