"""200 texts for Python, browser and Node alike."""

from __future__ import annotations

import numpy as np

from tests.tiny import LETTERS, WORDS

ODD = [
    "",
    " ",
    "\x00\x01good\x7f\x85film",
    "漢字kanji 漢字,很好!",
    "\U0001f469\u200d\U0001f52c \U0001f44d\U0001f3fd good",
    "Na\u00efve cafe\u0301 \u201cquoted\u201d \u2014 \u200bend",
    "\u0639\u0631\u0628\u064a \u05e2\u05d1\u05e8\u05d9\u05ea",
    "\uf059 \ufffd \ufeff hello",
    "[SEP] [CLS] [MASK] [PAD]",
    "\u0130stanbul \u1e9e \u03a3\u03c2",
    "a" * 99,
    "a" * 101,
    "good, bad. very! not? 0123456789 " * 20,
    "\uac01\ud7a3 \u1112\u1161\u11ab hangul",
    "\U000204cb\U0002001fx\U0002ceaf good",
    "\tworld\xa0hello\u3000fun",
]


def two_hundred() -> list[str]:
    """The odd ones, then random words; some are longer than the model takes."""
    rng = np.random.default_rng(0)
    made = [
        " ".join(rng.choice(WORDS + LETTERS, rng.integers(1, 24))) for _ in range(200 - len(ODD))
    ]
    return [*ODD, *made]
