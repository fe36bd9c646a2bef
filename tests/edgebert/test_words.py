"""Words found from characters alone, and what tokens make of them."""

from __future__ import annotations

import random

import pytest

from edgebert.text.words import fuse_words, split_words, tokens_of_words, written_words


def cut(text, find=written_words):
    return [text[start:end] for start, end in find(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Groenlinks praat over Schiphol.", ["Groenlinks", "praat", "over", "Schiphol", "."]),
        ("ticket ?\n\n(really)", ["ticket", "?", "(", "really", ")"]),
        ("don't e-mail AT&T", ["don't", "e-mail", "AT&T"]),
        ("Ford's, Obama\u2019s 's", ["Ford", "'s", ",", "Obama", "\u2019s", "'", "s"]),
        ("in the U.S. today", ["in", "the", "U.S.", "today"]),
        ("George W. Bush", ["George", "W.", "Bush"]),
        ("vitamin C.", ["vitamin", "C", "."]),
        ("U.S.A a.b", ["U.S.A", "a.b"]),
        ("$1,000.50 at 10:30,", ["$", "1,000.50", "at", "10:30", ","]),
        ("a,b x:y", ["a", ",", "b", "x", ":", "y"]),
        ("@some_one #tag a@b.de", ["@some_one", "#tag", "a@b.de"]),
        ("wait... a--b", ["wait", ".", ".", ".", "a", "-", "-", "b"]),
        ("中国, ABC公司", ["中", "国", ",", "ABC", "公", "司"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("\u0e44\u0e17\u0e22 \u0e21\u0e37", ["\u0e44", "\u0e17", "\u0e22", "\u0e21\u0e37"]),
        ("cafe\u0301 Bra\u0302n", ["cafe\u0301", "Bra\u0302n"]),
        ("T\x10his is \x10 a", ["T\x10his", "is", "\x10", "a"]),
        ("\u0130stanbul \ufb01ne \u00df", ["\u0130stanbul", "\ufb01ne", "\u00df"]),
        ("\u05e9\u05dc\u05d5\u05dd\u200f!", ["\u05e9\u05dc\u05d5\u05dd", "\u200f", "!"]),
        (
            "\u0639\u0627\u0644\u0645\u200c\u0647\u0627",
            ["\u0639\u0627\u0644\u0645\u200c\u0647\u0627"],
        ),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", ["\u0939\u093f\u0928\u094d\u0926\u0940"]),
        (
            "ok\U0001f44d\U0001f3fd\U0001f1e9\U0001f1ea",
            ["ok", "\U0001f44d\U0001f3fd\U0001f1e9\U0001f1ea"],
        ),
        ("\U0001f469\u200d\U0001f467!", ["\U0001f469\u200d\U0001f467", "!"]),
        ("", []),
        (" \t\u3000", []),
    ],
)
def test_words_are_as_people_write_them(text, words):
    assert cut(text) == words


def test_split_words_part_at_every_sign():
    assert cut("don't e-mail the U.S.", split_words) == [
        *("don", "'", "t", "e", "-", "mail", "the", "U", ".", "S", "."),
    ]


def random_text(generator, length=40):
    pools = ["abAB", "12", " \t\n", ".,'-@#&", "\u0301\u093f\ufe0f", "\x00\x10\u200b\u200d\u200f"]
    pools += ["\u4e2d\u56fd\u30bf\u0e17", "\u0130\ufb01\u00df", "\U0001f600\U0001f3fd\u2026\uff1f"]
    return "".join(generator.choice(generator.choice(pools)) for _ in range(length))


@pytest.mark.parametrize("find", [written_words, split_words])
def test_every_visible_character_is_in_exactly_one_word(find):
    generator = random.Random(0)
    for _ in range(500):
        text = random_text(generator)
        covered = [place for start, end in find(text) for place in range(start, end)]
        assert covered == [i for i, character in enumerate(text) if not character.isspace()]


def test_words_take_time_in_proportion_to_the_text():
    for part in ("a.", "a\u200b", "A. ", "\U0001f600\u200d", "a'", "1,", "\u0301", "A." + " " * 50):
        assert written_words(part * 20_000)


def test_a_token_makes_one_word_of_those_that_it_touches():
    words = [(0, 3), (3, 4), (5, 8), (8, 9)]
    assert fuse_words(words, [(0, 2), (2, 4), (5, 8), (8, 9)]) == [(0, 4), (5, 8), (8, 9)]
    assert fuse_words(words, [(0, 9)]) == [(0, 9)]
    assert fuse_words(words, []) == words


def test_tokens_belong_to_the_words_that_they_touch():
    words = [(0, 3), (4, 6), (7, 9)]
    assert tokens_of_words(words, [(0, 2), (2, 3), (3, 4), (7, 8)]) == [[0, 1], [], [3]]


def test_of_two_words_a_token_takes_the_one_that_has_none_yet():
    assert tokens_of_words([(0, 3), (3, 6)], [(0, 2), (2, 6)]) == [[0], [1]]
    assert tokens_of_words([(0, 3), (3, 6)], [(0, 6), (5, 6)]) == [[0], [1]]
