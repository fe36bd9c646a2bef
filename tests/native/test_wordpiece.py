"""The WordPiece in C against the `tokenizers` package: id for id."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from edgebert.formats.manifest import TOKENIZER_NAME
from tests.edgebert.bundles import write_bundle
from tests.native.conftest import SOURCES
from tests.native.vocabularies import (
    characters_that_matter,
    ids_of_the_package,
    write_wide_bundle,
)
from tests.real_texts import random_lines, real_lines

pytestmark = pytest.mark.slow

HARD = [
    "",
    " ",
    "\0",
    "a\0b",
    "\x01\x7f\x85\u200b\ufeff\ufffd",
    "e\u0301\u0327 e\u0327\u0301 \u0345\u0301\u0334\u0327a \u302e\u0301\u302fb",  # marks reordered
    "\u0130I\u0131i \u03a3\u03c3\u03c2 \ufb01 \u1e9e\u00df",
    "\u1ea5\u1e0d\u0307 \uac01\ud7a3 \u0344 \u2126\u212b",
    "\U0001f469\u200d\U0001f52c \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "漢字kanji漢字 \u3000x\u2028y\xa0z\tw\rv",
    "[CLS] [SEP][MASK] [unk]",
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "\u0301" * 5000,
    "x" * 100_000,
    "good," * 5000,
    "don't — “quoted” ¿qué? $5^6`~|<=>+",
]
SETTINGS = [
    {},
    {"lowercase": False},
    {"lowercase": False, "strip_accents": True},
    {"strip_accents": False},
    {"clean_text": False, "handle_chinese_chars": False},
]


def mixed(characters, count):
    """Join some at random, so that marks meet, and words of several kinds."""
    rng = random.Random(0)
    marks = [one for one in characters if 0x300 <= ord(one) < 0x370 or ord(one) in (0x302E, 0x345)]
    return [
        "".join(rng.choice(marks if rng.random() < 0.3 else characters) for _ in range(20))
        for _ in range(count)
    ]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_character_and_hard_text_has_the_ids_of_the_package(native, tmp_path, settings):
    characters = characters_that_matter()
    texts = [*HARD, *(f"a{one}b {one}" for one in characters), *mixed(characters, 2000)]
    texts += [text.replace("\n", "\r") for text in random_lines(2000)]  # one text is one line
    write_wide_bundle(tmp_path, texts, **settings)
    found = native.lines(tmp_path, "ids", texts=texts)
    wrong = [
        (text, ours, theirs)
        for text, ours, theirs in zip(
            texts, found, ids_of_the_package(tmp_path, texts), strict=True
        )
        if ours != theirs
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)}, the first: {wrong[0]!r}"


def test_texts_of_the_data_sets_have_the_ids_of_the_package(native, shared, tmp_path):
    texts = [text for text in real_lines(shared)[::10] if "\n" not in text]  # all: 100 s
    write_wide_bundle(tmp_path, texts)
    found = native.lines(tmp_path, "ids", texts=texts)
    assert found == ids_of_the_package(tmp_path, texts)


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff",
        b"ab\xc3",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x28\xa1",
        b"\xf0\x80\x80\xaf",
    ],
)
def test_what_is_no_utf8_is_refused_with_its_place(native, tmp_path, bad):
    write_bundle(tmp_path, task="feature-extraction")
    done = native.run(tmp_path, "ids", given=b"fine\nxy " + bad + b" z\n")
    assert done.returncode == 1
    assert b"line 2: The text is no UTF-8 at byte " in done.stderr
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize("length", [3, 4, 7, 8])
def test_a_pair_is_cut_as_the_package_cuts_it(native, tmp_path, length):
    pairs = [("a b c d", "e f"), ("a", "b c d e f"), ("a b c", "d e f"), ("", "a b c d e f g h")]
    write_bundle(tmp_path, task="text-classification", pairs=True, max_length=40)
    manifest = json.loads((tmp_path / "edgebert.json").read_text())
    manifest["max_length"] = length + 3
    manifest["golden"] = {"texts": ["a"], "text_pairs": ["b"], "input_ids": [[2, 5, 3, 6, 3]]}
    (tmp_path / "edgebert.json").write_text(json.dumps(manifest))
    found = native.lines(tmp_path, "ids", texts=["\t".join(pair) for pair in pairs])
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tmp_path / TOKENIZER_NAME))
    tokenizer.enable_truncation(length + 3)
    assert found == [tokenizer.encode(*pair).ids for pair in pairs]


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("model", {"type": "BPE"}),
        ("normalizer", {"type": "Lowercase"}),
        ("pre_tokenizer", {"type": "Whitespace"}),
        ("post_processor", None),
    ],
)
def test_a_tokenizer_of_another_kind_is_refused_by_name(native, tmp_path, part, other):
    write_bundle(tmp_path, task="feature-extraction")
    path = tmp_path / TOKENIZER_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), part: other}))
    done = native.run(tmp_path, "ids")
    assert done.returncode == 1
    assert f"its {part} is of a kind".encode() in done.stderr


def test_the_tables_are_what_their_script_writes():
    made = subprocess.run(
        [sys.executable, SOURCES / "make_unicode_tables.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == (SOURCES / "unicode_tables.h").read_text(encoding="utf-8")
