"""Which pieces of each kind of vocabulary are kept, by hand and on random vocabularies."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from compress.trimming.choosing import PieceCounts, choose_ids, count_pieces
from compress.trimming.kinds import vocabulary_of
from compress.trimming.tokenizer_files import TokenizerFiles
from edgebert.errors import InputError


def opened(folder, model):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return TokenizerFiles.read(folder)


def numbered(pieces):
    return {piece: i for i, piece in enumerate(pieces)}


def wordpiece(*pieces):
    return models.WordPiece(numbered(["[UNK]", *pieces]), unk_token="[UNK]")


def bpe(letters, merges, **settings):
    pieces = ["?", *letters, *dict.fromkeys(left + right for left, right in merges)]
    return models.BPE(numbered(pieces), merges, unk_token="?", **settings)


def unigram(**scores):
    return models.Unigram([("?", 0.0), *scores.items()], unk_id=0)


def cut_by(files, texts, *, vocab_size=None, min_count=1):
    counts = count_pieces(files.plain, files.vocabulary, texts)
    kept = choose_ids(files.vocabulary, counts, (), vocab_size=vocab_size, min_count=min_count)
    return files.cut({old: new for new, old in enumerate(kept)})


def pieces_of(files):
    return set(files.ids)


def test_wordpiece_keeps_what_is_used_and_both_forms_of_each_character(tmp_path):
    files = opened(tmp_path, wordpiece("a", "##a", "b", "##b", "c", "##c", "ab", "##ab", "abc"))
    assert pieces_of(cut_by(files, ["ab a"])) == {"[UNK]", "a", "##a", "b", "##b", "ab"}


def test_a_word_that_wordpiece_does_not_know_stays_unknown(tmp_path):
    files = opened(
        tmp_path, wordpiece("ab", "##cd", "abc")
    )  # abc is taken, and then there's no ##d
    cut = cut_by(files, ["abcd abcd", "ab"])
    assert cut.plain.encode("abcd").tokens == ["[UNK]"]
    assert pieces_of(cut) == {"[UNK]", "ab", "abc"}


def test_a_piece_of_bpe_brings_all_that_its_merges_go_through(tmp_path):
    merges = [("a", "b"), ("c", "d"), ("ab", "cd"), ("b", "c"), ("d", "d")]
    files = opened(tmp_path, bpe("abcde", merges))
    cut = cut_by(files, ["abcd"])
    assert pieces_of(cut) == {"?", *"abcd", "ab", "cd", "abcd"}
    assert cut.settings["model"]["merges"] == [["a", "b"], ["c", "d"], ["ab", "cd"]]


def test_a_piece_that_bpe_makes_in_two_ways_keeps_both(tmp_path):
    files = opened(tmp_path, bpe("abc", [("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")]))
    cut = cut_by(files, ["abc"])
    assert cut.settings["model"]["merges"] == files.settings["model"]["merges"]


def test_the_prefix_of_a_bpe_goes_when_pieces_are_merged(tmp_path):
    pieces = numbered(["?", "a", "##b", "##c", "ab", "##bc"])
    model = models.BPE(
        pieces,
        [("a", "##b"), ("##b", "##c")],
        unk_token="?",
        continuing_subword_prefix="##",
    )
    cut = cut_by(opened(tmp_path, model), ["ab"])
    assert pieces_of(cut) == {"?", "a", "##b", "ab"}


def test_the_bytes_of_a_bpe_all_stay(tmp_path):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model = models.BPE(numbered([*alphabet, "ab", "cd"]), [("a", "b"), ("c", "d")])
    cut = cut_by(opened(tmp_path, model), ["ab"])
    assert pieces_of(cut) == {*alphabet, "ab"}


@pytest.mark.parametrize("kind", ["BPE", "Unigram"])
def test_the_pieces_of_bytes_that_stand_for_unknowns_stay(tmp_path, kind):
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    if kind == "BPE":
        model = models.BPE(
            numbered(["?", *fallback, "a", "b"]), [], unk_token="?", byte_fallback=True
        )
    else:
        entries = [("?", 0.0), *((piece, -9.0) for piece in [*fallback, "a", "b"])]
        model = models.Unigram(entries, unk_id=0, byte_fallback=True)
    cut = cut_by(opened(tmp_path, model), ["a"])
    assert pieces_of(cut) == {"?", *fallback, "a"}
    assert cut.plain.encode("b").tokens == ["<0x62>"]


def test_unigram_scores_an_unknown_character_as_before(tmp_path):
    files = opened(tmp_path, unigram(xa=-30, b=-25, ab=-1, a=-40, worst=-50))
    assert files.plain.encode("xab").tokens == ["xa", "b"]  # -55; x unknown and ab: -50 - 10 - 1
    cut = cut_by(files, ["xab", "ab"])
    assert cut.plain.encode("xab").tokens == ["xa", "b"]  # it would be -40 - 10 - 1 without worst
    assert "worst" in pieces_of(cut)


def test_unigram_keeps_its_scores_and_finds_its_unknown_piece(tmp_path):
    model = models.Unigram([("gone", -3.0), ("a", -1.5), ("b", -7.25), ("?", -2.0)], unk_id=3)
    cut = cut_by(opened(tmp_path, model), ["a"])
    assert cut.settings["model"]["vocab"] == [["a", -1.5], ["b", -7.25], ["?", -2.0]]
    assert cut.settings["model"]["unk_id"] == cut.vocabulary.unknown_id == 2


def test_the_most_frequent_pieces_fill_the_size_that_was_asked_for(tmp_path):
    files = opened(tmp_path, wordpiece("a", "aa", "aaa", "aaaa"))
    cut = cut_by(files, ["aa aaa aaa aaaa aaaa aaaa"], vocab_size=4)
    assert pieces_of(cut) == {"[UNK]", "a", "aaa", "aaaa"}


def test_a_piece_that_is_used_less_often_than_asked_for_goes(tmp_path):
    files = opened(tmp_path, wordpiece("a", "aa", "aaa"))
    assert pieces_of(cut_by(files, ["aa aaa aaa"], min_count=2)) == {"[UNK]", "a", "aaa"}


def test_a_size_below_what_stays_is_refused_with_the_number_that_is_needed(tmp_path):
    files = opened(tmp_path, wordpiece("a", "##a", "b", "aa"))
    assert len(pieces_of(cut_by(files, ["aa b"], vocab_size=4))) == 4
    with pytest.raises(InputError, match="vocab_size must be 4 or more, got 3"):
        cut_by(files, ["aa b"], vocab_size=3)


def random_model(kind, rng):
    words = ["".join(rng.choices("abcd", k=rng.randint(2, 5))) for _ in range(30)]
    if kind == "WordPiece":
        parts = [*"abc", *(word[i:] for word in words for i in range(3)), *words]
        return wordpiece(*dict.fromkeys(rng.choice(["", "##"]) + part for part in parts if part))
    if kind == "BPE":
        known, merges = list("abc"), []
        for _ in range(25):
            pair = (rng.choice(known), rng.choice(known))
            if pair not in merges and len("".join(pair)) < 7:
                merges.append(pair)
                known.append("".join(pair))
        return bpe("abc", merges)
    parts = dict.fromkeys([*"ab", *(word[i:j] for word in words for i in (0, 1) for j in (2, 4))])
    return unigram(**{part: -rng.uniform(1, 20) for part in parts if part})


@pytest.mark.parametrize("kind", ["WordPiece", "BPE", "Unigram"])
def test_texts_of_kept_pieces_are_split_as_before_in_random_vocabularies(tmp_path, kind):
    rng = random.Random(0)
    unchanged = changed = 0
    for _ in range(60):
        files = opened(tmp_path, random_model(kind, rng))
        texts = [" ".join("".join(rng.choices("abcd", k=5)) for _ in range(2)) for _ in range(40)]
        cut = cut_by(files, texts[:8], min_count=rng.choice([1, 2]))
        for text in texts:
            before, after = (one.plain.encode(text).tokens for one in (files, cut))
            if pieces_of(cut).issuperset(before) and "[UNK]" not in before:
                assert after == before
                unchanged += 1
            changed += after != before
    assert unchanged > 100
    assert changed > 100


@pytest.mark.parametrize("kind", ["WordPiece", "BPE", "Unigram"])
def test_every_text_of_a_corpus_is_split_as_before_in_random_vocabularies(tmp_path, kind):
    rng = random.Random(1)
    for _ in range(60):
        files = opened(tmp_path, random_model(kind, rng))
        texts = ["".join(rng.choices("abcd", k=6)) for _ in range(8)]
        cut = cut_by(files, texts)
        for text in texts:
            assert cut.plain.encode(text).tokens == files.plain.encode(text).tokens


def test_an_added_token_that_the_corpus_uses_is_no_piece_to_choose():
    vocabulary = vocabulary_of({"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0}, source="x")
    counts = PieceCounts(Counter({0: 1, 5: 9}), {"a"})
    assert choose_ids(vocabulary, counts, {5}, vocab_size=None, min_count=1) == [0, 5]
