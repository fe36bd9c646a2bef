"""Bundles whose vocabulary has every character of a set, so that ids tell what became of each."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgebert.formats.manifest import TOKENIZER_NAME
from tests.edgebert.bundles import write_bundle
from tests.tiny import VOCAB, write_tokenizer

LONGEST = 131_072  # that a manifest may say
CHINESE, HANGUL = range(0x3400, 0xA000), range(0xAC00, 0xD7A4)


def characters_that_matter() -> list[str]:
    """Every character with a name, but of Chinese and Hangul each 50th; and a few without one."""
    found = []
    for code in range(sys.maxunicode + 1):
        kind = unicodedata.category(chr(code))
        dull = code in CHINESE or code in HANGUL or code >= 0x20000 or kind in ("Cn", "Co")
        if kind != "Cs" and chr(code) != "\n" and (not dull or code % 50 == 0):
            found.append(chr(code))
    return found


def write_wide_bundle(directory: Path, texts: Iterable[str], **normalizer: Any) -> None:
    """Write a bundle whose vocabulary has each character of the texts, alone and within a word.

    Args:
        directory: Where to.
        texts: What to take the characters of, as they are, decomposed, and in lower case.
        normalizer: Settings of ``BertNormalizer`` to change.
    """
    own: set[str] = set()
    for text in texts:
        own.update(text, text.lower(), unicodedata.normalize("NFD", text))
        own.update(unicodedata.normalize("NFD", text).lower())
    added = sorted(own - set(VOCAB))
    vocab = [*VOCAB, *added, *("##" + one for one in added)]

    def write(folder: Path) -> None:
        write_tokenizer(folder, vocab=list(dict.fromkeys(vocab)))
        path = folder / TOKENIZER_NAME
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["normalizer"].update(normalizer)
        path.write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")

    write_bundle(directory, task="feature-extraction", tokenizer=write, max_length=LONGEST)


def ids_of_the_package(directory: Path, texts: Sequence[str]) -> list[list[int]]:
    """Give the ids of the `tokenizers` package itself."""
    tokenizer = Tokenizer.from_file(str(directory / TOKENIZER_NAME))
    tokenizer.encode_special_tokens = True
    tokenizer.enable_truncation(LONGEST)
    return [one.ids for one in tokenizer.encode_batch(list(texts))]
