"""A tagger's logits as entities, by hand and against a reading character by character."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from edgebert.errors import InputError
from edgebert.tasks.tagging import AGGREGATIONS, decode_tags, entity_spans
from edgebert.text.words import split_words, written_words

LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")
TEXT = "Groenlinks over Schiphol."
TOKENS = [(0, 0), (0, 5), (5, 10), (10, 15), (15, 20), (20, 24), (24, 25), (0, 0)]  # with spaces


def logits_of(*tags, sure=4.0):
    """Give each token one tag with a logit of its own."""
    logits = np.zeros((len(tags), len(LABELS)), dtype=np.float32)
    for row, tag in zip(logits, tags, strict=True):
        name, _, strength = tag.partition("*")
        row[LABELS.index(name)] = float(strength or sure)
    return logits


def decode(logits, offsets=TOKENS, text=TEXT, **options):
    specials = np.array([int(start == end) for start, end in offsets])
    return decode_tags(logits, offsets, specials, text, labels=LABELS, **options)


def shown(entities):
    return [(one.label, one.text) for one in entities]


TAGGED = logits_of("B-Y", "B-X*1", "I-X*9", "O", "B-Y*2", "O*3", "O", "B-Y")


@pytest.mark.parametrize("aggregation", ["word", "first"])
def test_the_first_token_of_a_word_decides(aggregation):
    found = decode(TAGGED, aggregation=aggregation)
    assert shown(found) == [("X", "Groenlinks"), ("Y", "Schiphol")]
    assert found[0].score == pytest.approx(np.e / (np.e + 4))


def test_the_mean_of_a_word_s_tokens_decides():
    found = decode(TAGGED, aggregation="average")
    assert shown(found) == [("X", "Groenlinks")]  # Schiphol: O 0.46 and B-Y 0.35
    outside, inside = np.e + 4, np.e**9 + 4
    assert found[0].score == pytest.approx((1 / outside + np.e**9 / inside) / 2)


def test_the_surest_token_decides():
    found = decode(TAGGED, aggregation="max")
    assert shown(found) == [("X", "Groenlinks")]
    assert found[0].score == pytest.approx(np.e**9 / (np.e**9 + 4))


def test_none_keeps_tokens_apart_and_leaves_out_their_spaces():
    assert shown(decode(TAGGED, aggregation="none")) == [
        *(("B-X", "Groen"), ("I-X", "links"), ("O", "over")),
        *(("B-Y", "Schi"), ("O", "phol"), ("O", ".")),
    ]


def test_punctuation_in_a_word_cuts_it_in_all_but_word():
    text = "the U.S. don't"
    tokens = [(0, 3), (4, 5), (5, 6), (6, 7), (7, 8), (9, 12), (12, 13), (13, 14)]
    logits = logits_of("O", "B-X", "O", "B-X", "O", "B-Y", "O", "I-Y")
    assert shown(decode(logits, tokens, text)) == [("X", "U.S."), ("Y", "don't")]
    assert shown(decode(logits, tokens, text, aggregation="first")) == [
        *(("X", "U"), ("X", "S"), ("Y", "don"), ("Y", "t")),
    ]


def test_words_of_the_caller_are_taken_as_they_are():
    words = [(0, 10), (11, 15), (16, 25)]
    found = decode(TAGGED, words=words)
    assert shown(found) == [("X", "Groenlinks"), ("Y", "Schiphol.")]


def test_a_dropped_word_of_the_caller_s_ends_an_entity_and_one_found_does_not():
    text, tokens = "ab \x10 cd", [(0, 2), (5, 7)]
    logits = logits_of("B-X", "I-X")
    assert shown(decode(logits, tokens, text)) == [("X", text)]
    apart = decode(logits, tokens, text, words=[(0, 2), (3, 4), (5, 7)])
    assert shown(apart) == [("X", "ab"), ("X", "cd")]


def test_chinese_characters_are_words():
    logits = logits_of("B-X", "I-X", "O", "B-Y")
    found = decode(logits, [(0, 1), (1, 2), (2, 3), (3, 4)], "北京去中")
    assert [(one.text, one.start, one.end) for one in found] == [("北京", 0, 2), ("中", 3, 4)]


def test_an_accent_that_the_tokenizer_strips_is_in_the_entity():
    found = decode(logits_of("B-X", "I-X"), [(0, 4), (6, 8)], "cafe\u0301 uk")
    assert shown(found) == [("X", "cafe\u0301 uk")]


def test_a_text_without_tokens_has_no_entities():
    for aggregation in AGGREGATIONS:
        logits = logits_of("B-X", "B-X")
        assert decode(logits, [(0, 0), (0, 0)], "", aggregation=aggregation) == []


def test_labels_without_prefix_join_beside_each_other():
    logits = np.eye(3, dtype=np.float32)[[1, 1, 0, 2]] * 5
    found = decode_tags(
        logits,
        [(0, 2), (3, 5), (6, 8), (9, 11)],
        np.zeros(4, dtype=np.int64),
        "aa bb cc dd",
        labels=("O", "PER", "LOC"),
    )
    assert shown(found) == [("PER", "aa bb"), ("LOC", "dd")]


def test_another_aggregation_is_refused():
    with pytest.raises(InputError, match="'simple'"):
        decode(TAGGED, aggregation="simple")


WORDS = ["the", "Groenlinks", "caf\u00e9", "stra\u00dfe", "don't", "U.S.", "ticket", "?"]
WORDS += ["hello", "world", "\u4e2d\u56fd", "\u2026"]


def _word_piece():
    made = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = {"special_tokens": ["[UNK]"], "show_progress": False}
    made.train_from_iterator(WORDS, trainers.WordPieceTrainer(vocab_size=60, **special))
    return made


def _byte_bpe():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        WORDS, trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False)
    )
    return made


def _unigram():
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = {"special_tokens": ["<unk>"], "unk_token": "<unk>", "show_progress": False}
    made.train_from_iterator(WORDS, trainers.UnigramTrainer(vocab_size=50, **special))
    return made


@pytest.fixture(scope="module", params=[_word_piece, _byte_bpe, _unigram])
def tokenizer(request):
    return request.param()


def random_text(generator):
    pools = ["the", "hello", "caf\u00e9", "cafe\u0301", "\u0130stanbul", "\ufb01ne", "stra\u00dfe"]
    pools += [
        "\u4e2d\u56fd",
        "\uae40\ucca0\uc218",
        "\u05e9\u05dc\u05d5\u05dd\u200f",
        "\u0e44\u0e17",
    ]
    pools += [*".,?'-@", "\u2026", " ", "  ", " ", "\t", "\x10", "\u200b", "U.S.", "\U0001f600"]
    pools += ["\u0939\u093f\u0928\u094d", "\U0001f469\u200d\U0001f467", "\ufffd", "\xa0"]
    return "".join(generator.choice(pools) for _ in range(generator.randint(0, 15)))


def by_characters(text, tokens, logits, words):
    """Join the characters that a word or a token has together; the first token of each decides."""
    group = list(range(len(text)))
    for start, end in [*words, *tokens]:
        joined = {group[place] for place in range(start, end)}
        group = [min(joined) if mine in joined else mine for mine in group]
    spans, tags = [], []
    for mine in sorted(set(group)):
        places = [place for place, one in enumerate(group) if one == mine]
        first = next((i for i, (start, _) in enumerate(tokens) if start in places), None)
        if first is not None:
            spans.append((places[0], places[-1] + 1))
            tags.append(LABELS[int(logits[first].argmax())])
    found = entity_spans(tags)
    return [(kind, spans[first][0], spans[last][1]) for kind, first, last in found]


@pytest.mark.parametrize(("aggregation", "find"), [("word", written_words), ("first", split_words)])
def test_random_tags_agree_with_a_reading_by_characters(tokenizer, aggregation, find):
    generator, numbers = random.Random(1), np.random.default_rng(1)
    for _ in range(200):
        text = random_text(generator)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        logits = numbers.normal(size=(len(encoded), len(LABELS))).astype(np.float32)
        spans = []
        for start, end in encoded.offsets:
            visible = [place for place in range(start, end) if not text[place].isspace()]
            spans.append((visible[0], visible[-1] + 1) if visible else None)
        kept = [i for i, span in enumerate(spans) if span]
        expected = by_characters(text, [spans[i] for i in kept], logits[kept], find(text))
        found = decode_tags(
            logits,
            encoded.offsets,
            np.zeros(len(encoded), dtype=np.int64),
            text,
            labels=LABELS,
            aggregation=aggregation,
        )
        assert [(one.label, one.start, one.end) for one in found] == expected


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_entities_of_any_text_are_slices_of_it_in_order(tokenizer, aggregation):
    generator, numbers = random.Random(2), np.random.default_rng(2)
    for _ in range(100):
        text = random_text(generator)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        found = decode_tags(
            numbers.normal(size=(len(encoded), len(LABELS))).astype(np.float32),
            encoded.offsets,
            np.zeros(len(encoded), dtype=np.int64),
            text,
            labels=LABELS,
            aggregation=aggregation,
        )
        assert all(one.text == text[one.start : one.end] == one.text.strip() for one in found)
        assert all(one.text and 0 < one.score <= 1 for one in found)
        limit = (lambda one: one.start) if aggregation == "none" else (lambda one: one.end)
        assert all(limit(a) <= b.start for a, b in pairwise(found))
