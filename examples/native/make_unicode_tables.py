"""Write unicode_tables.h: what BertNormalizer and BertPreTokenizer do with each character.

python make_unicode_tables.py > unicode_tables.h

The classes are asked of the `tokenizers` package, character by character, not of `unicodedata`:
the package's tables of marks and punctuation are of an older Unicode than Python's (in 0.23, 386
marks and 100 signs differ), and ids must equal the package's. Only the order of marks is Python's.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator

import tokenizers
from tokenizers import normalizers, pre_tokenizers

OFF = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False}
CLEAN = normalizers.BertNormalizer(**{**OFF, "clean_text": True}, lowercase=False)
CHINESE = normalizers.BertNormalizer(**{**OFF, "handle_chinese_chars": True}, lowercase=False)
STRIP = normalizers.BertNormalizer(**{**OFF, "strip_accents": True}, lowercase=False)
LOWER = normalizers.BertNormalizer(**OFF, lowercase=True)
NFD = normalizers.NFD()
WORDS = pre_tokenizers.BertPreTokenizer()
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
WIDTH = 220


def ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Join neighbours: the first and the last of each run."""
    start = last = -1
    for number in numbers:
        if number != last + 1 or start < 0:
            if start >= 0:
                yield start, last
            start = number
        last = number
    if start >= 0:
        yield start, last


def order_of(c: int) -> int:
    """Give the canonical combining class, 0 where the package knows none."""
    one, order = chr(c), unicodedata.combining(chr(c))
    moves = NFD.normalize_str(one + "\u0334") != NFD.normalize_str(one) + "\u0334"  # class 1
    moved = NFD.normalize_str("\u0345" + one) != "\u0345" + NFD.normalize_str(one)  # class 240
    return order if moves or moved or order in (1, 240) else 0


def pieces_of(c: int) -> int:
    """1 for a character within a word, 2 for a space between words, 3 for punctuation."""
    return len(WORDS.pre_tokenize_str(f"a{chr(c)}b"))


def lower_runs() -> Iterator[tuple[int, int, int, int]]:
    """Give first, last, step and distance of runs of capitals."""
    one = {c: LOWER.normalize_str(chr(c)) for c in CHARACTERS}
    capitals = [(c, ord(low) - c) for c, low in one.items() if len(low) == 1 and low != chr(c)]
    run: list[int] = []
    for c, distance in capitals:
        if run and run[3] == distance and c - run[1] == (run[2] or c - run[1]) <= 2:
            run[1:3] = [c, c - run[1]]
            continue
        if run:
            yield run[0], run[1], run[2] or 1, run[3]
        run = [c, c, 0, distance]
    yield run[0], run[1], run[2] or 1, run[3]


def write(name: str, kind: str, rows: Iterable[str]) -> None:
    """Print one array, many rows a line."""
    print(f"static const {kind} {name}[] = {{")
    line = ""
    for row in rows:
        if len(line) + len(row) > WIDTH:
            print(line)
            line = ""
        line += row + ","
    print(f"{line}\n}};")


def write_ranges(name: str, wanted: Callable[[int], bool]) -> None:
    """Print the runs of the characters that are wanted."""
    runs = ranges(c for c in CHARACTERS if wanted(c))
    write(name, "struct range", (f"{{{a},{b}}}" for a, b in runs))


def main() -> None:
    """Print the header."""
    print(f"/* Made by make_unicode_tables.py of tokenizers {tokenizers.__version__}. */")
    print("#include <stdint.h>")
    print("struct range { uint32_t first, last; };")
    print("struct order { uint32_t first, last, order; };")
    print("struct lower { uint32_t first, last, step; int32_t distance; };")
    print("struct parts { uint32_t from, to[4]; };")
    write_ranges("DROPPED", lambda c: CLEAN.normalize_str(chr(c)) == "")
    write_ranges("CLEANED_TO_SPACE", lambda c: c != 32 and CLEAN.normalize_str(chr(c)) == " ")
    write_ranges("CHINESE", lambda c: CHINESE.normalize_str(chr(c)) != chr(c))
    write_ranges("SPACES", lambda c: pieces_of(c) == 2)
    write_ranges("PUNCTUATION", lambda c: pieces_of(c) == 3)
    write_ranges("MARKS", lambda c: STRIP.normalize_str(chr(c)) == "")
    write("LOWER", "struct lower", (f"{{{a},{b},{s},{d}}}" for a, b, s, d in lower_runs()))
    orders: dict[int, list[int]] = {}
    for c in CHARACTERS:
        orders.setdefault(order_of(c) if unicodedata.combining(chr(c)) else 0, []).append(c)
    del orders[0]
    runs = sorted((a, b, order) for order, cs in orders.items() for a, b in ranges(cs))
    write("ORDERS", "struct order", (f"{{{a},{b},{order}}}" for a, b, order in runs))
    parts = {c: NFD.normalize_str(chr(c)) for c in CHARACTERS if c not in HANGUL}
    changed = [(c, to) for c, to in parts.items() if to != chr(c)]
    rows = (f"{{{c},{{{','.join(str(ord(x)) for x in to)}}}}}" for c, to in changed)
    write("PARTS", "struct parts", rows)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    main()
