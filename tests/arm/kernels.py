"""Which INT8 instructions qemu ran, read off its log of them (``-d in_asm``).

By their encoding (Arm Architecture Reference Manual, C4.1): the disassembler of qemu 7.2 doesn't
know the newer names. A block stands in the log once, when it is first run.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

_LINE = re.compile(rb"^0x[0-9a-f]+:  ([0-9a-f]{8})  ", re.MULTILINE)
# name -> (mask, value) of its forms; with Q, the vectors' width, left open
_INT8 = {
    "smull": ((0xBFE0FC00, 0x0E20C000), (0xBFE0FC00, 0x0E208000)),  # SMULL, SMLAL of bytes
    "smlal": ((0xBFC0F400, 0x0F402000),),  # by element, of halves: of bytes that were widened
    "sdot": ((0xBFE0FC00, 0x0E809400), (0xBFC0F400, 0x0F80E000)),  # vector, by element
    "udot": ((0xBFE0FC00, 0x2E809400), (0xBFC0F400, 0x2F80E000)),
    "smmla": ((0xFFE0FC00, 0x4E80A400),),
    "ummla": ((0xFFE0FC00, 0x6E80A400),),
}


def name_of(word: int) -> str | None:
    """Name an instruction of 32 bits, where it is one that INT8 is multiplied by."""
    for name, forms in _INT8.items():
        if any(word & mask == value for mask, value in forms):
            return name
    return None


def count(log: Path, start: int, end: int | None = None) -> Counter[str]:
    """Count the INT8 instructions in a part of a log, from byte ``start`` to ``end``."""
    with log.open("rb") as file:
        file.seek(start)
        text = file.read() if end is None else file.read(end - start)
    words = Counter(found.group(1) for found in _LINE.finditer(text))
    counts: Counter[str] = Counter()
    for word, times in words.items():
        if (name := name_of(int(word, 16))) is not None:
            counts[name] += times
    return counts
