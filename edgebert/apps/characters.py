"""What a bundle's normalizer makes of each character, as a text file that any language can read.

Unicode's tables differ by the age of a phone, and those of the `tokenizers` package are older than
most. So an app gets what the package itself does, asked character by character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from tokenizers import normalizers, pre_tokenizers

HANGUL = range(0xAC00, 0xD7A4)  # taken apart by arithmetic (Unicode, chapter 3.12)
_CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
_SEPARATOR = "0"  # no normalizer changes it, and no other character becomes it
_WITHIN_WORDS = {"Lu", "Ll", "Lt", "Lo", "Nd", "Nl", "Cn", "Co", "Cs"}


@lru_cache(maxsize=4)  # it takes a second
def character_table(
    *, clean_text: bool, handle_chinese_chars: bool, strip_accents: bool | None, lowercase: bool
) -> str:
    """Write the table of a ``BertNormalizer`` of these settings and a ``BertPreTokenizer``.

    Args:
        clean_text: Drop control characters, and make white space a space.
        handle_chinese_chars: Put a space on both sides of each.
        strip_accents: None for what ``lowercase`` is.
        lowercase: …

    Returns:
        Lines of a word and hexadecimal code points. ``drop``, ``space``, ``spaced``,
        ``white`` and ``punctuation`` are followed by ranges like ``4e00-9fff``: characters that
        vanish, become a space, get a space on both sides; then, of what became of the text, those
        that end a word, and those that are a word of their own. ``hangul 1`` says that syllables
        are taken apart. Each line ``map`` has a character and what it becomes.
    """
    normalizer = normalizers.BertNormalizer(
        clean_text=clean_text,
        handle_chinese_chars=handle_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    made = _normalized(normalizer)
    white, punctuation = _split()
    rows = {
        "drop": [c for c, text in made.items() if text == ""],
        "space": [c for c, text in made.items() if text == " " and c != 0x20],
        "spaced": [c for c, text in made.items() if text == f" {chr(c)} "],
        "white": white,
        "punctuation": punctuation,
    }
    lines = [f"{name} {' '.join(map(_spelled, _ranges(found)))}" for name, found in rows.items()]
    lines.append(f"hangul {int(made[HANGUL[0]] != chr(HANGUL[0]))}")
    plain = {*rows["drop"], *rows["space"], *rows["spaced"], *HANGUL}
    lines += [
        f"map {c:x} {' '.join(f'{ord(one):x}' for one in text)}"
        for c, text in made.items()
        if text != chr(c) and c not in plain
    ]
    return "\n".join(lines) + "\n"


def _normalized(normalizer: normalizers.Normalizer) -> dict[int, str]:
    """Give what each character becomes, alone."""
    asked = [c for c in _CHARACTERS if chr(c) != _SEPARATOR]
    whole = str(normalizer.normalize_str(_SEPARATOR.join(map(chr, asked))))
    found = dict(zip(asked, whole.split(_SEPARATOR), strict=True))
    return {**found, ord(_SEPARATOR): _SEPARATOR}


def _split() -> tuple[list[int], list[int]]:
    """List the characters that are white space between words, and those that are words."""
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    white: list[int] = []
    punctuation: list[int] = []
    for c in _CHARACTERS:
        if unicodedata.category(chr(c)) in _WITHIN_WORDS:
            continue
        pieces = len(pre_tokenizer.pre_tokenize_str(f"a{chr(c)}b"))
        if pieces > 1:
            (white if pieces == 2 else punctuation).append(c)
    return white, punctuation


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -2
    for number in numbers:
        if number != last + 1:
            if first >= 0:
                yield first, last
            first = number
        last = number
    if first >= 0:
        yield first, last


def _spelled(span: tuple[int, int]) -> str:
    return f"{span[0]:x}-{span[1]:x}"
