from __future__ import annotations

import logging

import numpy as np
import pytest

from compress.data.encoding import EncodedTexts, collate, encode_texts
from edgebert.errors import InputError
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(directory)
    return Tokenizer(directory, special_ids=SPECIAL_IDS)


def encoded_of(*rows: list[int]) -> EncodedTexts:
    ids = [np.array(row, np.int32) for row in rows]
    return EncodedTexts(ids, [np.zeros_like(row) for row in ids], sha256="")


def test_a_text_becomes_its_vocabulary_ids_between_the_specials(tokenizer):
    encoded = encode_texts(tokenizer, ["good film"], max_length=8)
    expected = [2, VOCAB.index("good"), VOCAB.index("film"), 3]
    np.testing.assert_array_equal(encoded.input_ids[0], expected)
    assert encoded.input_ids[0].dtype == np.int32


def test_the_second_text_of_a_pair_has_type_one(tokenizer):
    encoded = encode_texts(tokenizer, ["good"], ["bad film"], max_length=8)
    np.testing.assert_array_equal(encoded.token_type_ids[0], [0, 0, 0, 1, 1, 1])


def test_lengths_count_the_specials(tokenizer):
    encoded = encode_texts(tokenizer, ["good film", "bad"], max_length=8)
    np.testing.assert_array_equal(encoded.lengths, [4, 3])


def test_cut_tokens_are_counted_and_logged_once(tokenizer, caplog):
    with caplog.at_level(logging.WARNING):
        encoded = encode_texts(tokenizer, ["good", "a a a a a", "a a a a"], max_length=5)
    assert encoded.dropped_tokens == 3
    assert [r.getMessage() for r in caplog.records] == [
        "2 of 3 texts are longer than 5 tokens; 3 tokens were cut off (--max-length)."
    ]


def test_the_hash_tells_where_a_text_ends(tokenizer):
    a = encode_texts(tokenizer, ["good", "bad film"], max_length=8)
    b = encode_texts(tokenizer, ["good bad", "film"], max_length=8)
    again = encode_texts(tokenizer, ["good", "bad film"], max_length=8)
    assert a.sha256 == again.sha256 != b.sha256


def test_texts_and_pairs_of_different_number_are_refused(tokenizer):
    with pytest.raises(InputError, match="2 texts but 1 second texts"):
        encode_texts(tokenizer, ["a", "b"], ["c"], max_length=8)


def test_collate_pads_on_the_right_to_the_longest_in_the_order_of_the_rows():
    batch = collate(encoded_of([2, 3], [2, 7, 8, 3], [2, 9, 3]), np.array([2, 0]), pad_id=5)
    assert batch["input_ids"].tolist() == [[2, 9, 3], [2, 3, 5]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["rows"].tolist() == [2, 0]


def test_collate_keeps_token_types_beside_their_tokens():
    encoded = EncodedTexts(
        [np.array([2, 7, 3, 8, 3], np.int32), np.array([2, 3, 3], np.int32)],
        [np.array([0, 0, 0, 1, 1], np.int32), np.array([0, 0, 1], np.int32)],
        sha256="",
    )
    batch = collate(encoded, np.array([0, 1]), pad_id=0)
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 1, 1], [0, 0, 1, 0, 0]]
