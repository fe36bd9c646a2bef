"""WordPiece held against transformers' plain Python, and long Chinese as slices of itself."""

import json
import unicodedata
from pathlib import Path

import pytest

from edgebert.text.tokenizer import Tokenizer
from edgebert.text.windows import cut_windows
from tests.real_texts import random_lines
from tests.tiny import SPECIAL_IDS, SPECIALS, write_tokenizer

SONG = "Hallo Dunkelheit, mein alter Freund!"
PIECES = ["Hall", "##o", "Dunkel", "##heit", ",", "mein", "alte", "##r", "Freund", "!"]
CHINESE = "北京大學在一九五二年遷到燕園。" * 12
# punctuation to Python's Unicode or to the library's, and not to the other's
NEWER = {"\u061d", "\u09fd", "\u09fe"}


def plain(line: str) -> bool:
    """Whether both have one reading of a line: one looks at neighbours, one has a newer Unicode.

    The Python puts a line in composed form first, leaves out what no Unicode it knows has a name
    for, and makes another small letter of the Greek sigma at the end of a word.
    """
    clean = "".join(char for char in line if unicodedata.category(char)[0] != "C")
    return (
        unicodedata.normalize("NFC", clean) == clean
        and not NEWER & set(line)
        and "Σ" not in line
        and all(unicodedata.category(char) != "Cn" for char in line)
    )


@pytest.fixture(scope="module")
def lines() -> list[str]:
    found = [line for line in random_lines(3_000, seed=5) if plain(line)]
    assert len(found) > 1_000
    return [SONG, "Vào mở bài lạc trôi, hacía/hacia, że wysoką izbę", *found]


@pytest.fixture(scope="module")
def vocabulary(lines) -> list[str]:
    chars = sorted({char for line in lines for char in line if not char.isspace()})
    return list(dict.fromkeys([*SPECIALS, *PIECES, *chars, *("##" + char for char in chars)]))


def with_normalizer(folder: Path, vocabulary: list[str], **settings: bool | None) -> Tokenizer:
    write_tokenizer(folder, vocab=vocabulary)
    state = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    state["normalizer"].update(settings)
    (folder / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


@pytest.mark.parametrize("chinese", [True, False])
@pytest.mark.parametrize("accents", [None, True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_a_wordpiece_of_any_settings_gives_the_ids_of_the_plain_python_one(
    lines, vocabulary, tmp_path, lower, accents, chinese
):
    legacy = pytest.importorskip("transformers.models.bert.tokenization_bert_legacy")
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    basic = legacy.BasicTokenizer(
        do_lower_case=lower, strip_accents=accents, tokenize_chinese_chars=chinese
    )
    pieces = legacy.WordpieceTokenizer(ids, "[UNK]")
    settings = {"lowercase": lower, "strip_accents": accents, "handle_chinese_chars": chinese}
    ours = with_normalizer(tmp_path, vocabulary, **settings).encode(lines, max_length=None)
    for line, one in zip(lines, ours, strict=True):
        expected = [ids[piece] for word in basic.tokenize(line) for piece in pieces.tokenize(word)]
        assert one.input_ids[1:-1].tolist() == expected, line


def test_a_cased_german_text_has_its_ids_and_none_is_undefined(vocabulary, tmp_path):
    tokenizer = with_normalizer(tmp_path, vocabulary, lowercase=False, strip_accents=False)
    (one,) = tokenizer.encode([SONG], max_length=None)
    assert [vocabulary[i] for i in one.input_ids] == ["[CLS]", *PIECES, "[SEP]"]


def test_the_text_of_each_window_of_chinese_is_a_slice_of_the_source(tmp_path):
    vocabulary = [*SPECIALS, *sorted(set(CHINESE))]
    tokenizer = with_normalizer(tmp_path, vocabulary)
    (whole,) = tokenizer.encode([CHINESE], max_length=None)
    covered = set()
    for window in cut_windows(whole, max_length=20, stride=4):
        spans = window.encoding.offsets[1:-1]
        start, end = spans[0][0], spans[-1][1]
        pieces = [vocabulary[i] for i in window.encoding.input_ids[1:-1]]
        assert CHINESE[start:end] == "".join(pieces)
        covered.update(range(start, end))
    assert covered == set(range(len(CHINESE)))
