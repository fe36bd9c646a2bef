"""Lines of many scripts for tests: the public data sets, and Unicode made at random."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

# First and last-but-one code points: Latin to Hangul, private use, controls, emoji, beyond 16 bits.
BLOCKS = (
    *((0x00, 0x20), (0x20, 0x7F), (0xA0, 0x250), (0x250, 0x300), (0x300, 0x370), (0x370, 0x400)),
    *((0x400, 0x530), (0x590, 0x600), (0x600, 0x700), (0x900, 0xA00), (0xE00, 0xE80)),
    *((0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2100, 0x2200), (0x3040, 0x3100)),
    *((0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xE000, 0xE100), (0xF900, 0xFAFF), (0xFB00, 0xFB07)),
    *((0xFE00, 0xFE10), (0xFF00, 0xFFF0), (0x1F300, 0x1F650), (0x20000, 0x20100)),
)


def real_lines(shared: Path) -> list[str]:
    """Give every text of the data sets, in a fixed order."""
    return [text for text in _all(shared / "data") if text]


def random_lines(count: int, *, seed: int = 0) -> list[str]:
    """Make lines of up to 60 characters, each of a few blocks of Unicode, with spaces between."""
    rng = random.Random(seed)

    def line() -> str:
        blocks = [*rng.sample(BLOCKS, 3), (0x20, 0x7F)]
        length = rng.randint(1, 60)
        return "".join(
            " " if rng.random() < 0.15 else chr(rng.randrange(*rng.choice(blocks)))
            for _ in range(length)
        )

    return [line() for _ in range(count)]


def _all(data: Path) -> Iterator[str]:
    for path in sorted(data.glob("*/*.tsv")):
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        if path.parent.name == "stsb":
            yield from (text for row in rows for text in row[5:7])
        else:
            yield from (row[-1 if path.parent.name == "chnsenticorp" else 0] for row in rows[1:])
    for path in sorted(data.glob("*/*.conll")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            rows = [line.split("\t") for line in block.split("\n") if line.strip()]
            yield " ".join(row[0].removeprefix("en:") for row in rows)
    for path in sorted(data.glob("*/*.json")):
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]
                yield from (qa["question"] for qa in paragraph["qas"])
