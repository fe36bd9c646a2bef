"""What is stored of a row: its entries, their offsets, and the vectors that a Runtime gives."""

import itertools
import json

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.features import extract, open_store
from edgebert.features.entries import entry_id

TEXTS = ["good film", "a", "hello world, the plot is very dull!", "not fun", "bad"]
LONG = "good film " * 12  # 24 words of 1 token; 16 tokens have room for 13 beside [CLS] the [SEP]


@pytest.fixture
def stored(embedder, tmp_path):
    """Extract, and give by key what is stored: entries and vectors, in the order of the chunks."""

    def call(inputs, **settings):
        uri = f"sqlite:{tmp_path / 'store.db'}"
        summary = extract(embedder, inputs, uri, **settings)
        with open_store(uri) as store:
            ids = list(store.ids())
            found = {}
            for entry, vector in zip(store.entries(ids), store.get(ids), strict=True):
                found.setdefault(entry.key, []).append((entry, vector))
        rows = {key: sorted(own, key=lambda x: x[0].chunk) for key, own in found.items()}
        return summary, rows

    return call


def in_order(rows, keys):
    return np.array([rows[key][0][1] for key in keys])


def test_an_entry_is_named_by_its_source_and_carries_the_columns(stored):
    row = {"id": 7, "text": " good film ", "year": 1999, "ok": True, "other": 1}
    _, rows = stored([row], id_column="id", metadata_columns=("year", "ok"))
    [(entry, _)] = rows["7"]
    assert entry.id == entry_id("7", 0, " good film ")
    assert (entry.chunk, entry.start, entry.end, entry.text) == (0, 0, 11, " good film ")
    assert entry.metadata == {"year": 1999, "ok": True}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
@pytest.mark.parametrize("dim", [None, 4])
def test_vectors_are_those_of_encode_to_the_bit(stored, embedder, dtype, dim):
    _, rows = stored(TEXTS, dtype=dtype, truncate_dim=dim)
    expected = embedder.encode(TEXTS, role="document", dtype=dtype, truncate_dim=dim)
    found = in_order(rows, [f"rows:{i + 1}" for i in range(len(TEXTS))])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("role", ["query", None])
def test_another_role_puts_another_prompt_first(stored, embedder, role):
    _, rows = stored(TEXTS[:1], role=role)
    np.testing.assert_array_equal(in_order(rows, ["rows:1"]), embedder.encode(TEXTS[:1], role=role))


def test_windows_give_a_long_text_one_vector_and_drop_nothing(stored, embedder):
    summary, rows = stored([LONG, "bad"], on_long="windows")
    expected = embedder.encode([LONG, "bad"], role="document", on_long="window")
    np.testing.assert_array_equal(in_order(rows, ["rows:1", "rows:2"]), expected)
    assert summary.dropped_tokens == 0
    assert rows["rows:1"][0][0].text == LONG


def test_truncation_counts_what_it_drops(stored, embedder):
    summary, rows = stored([LONG, "bad"], on_long="truncate")
    expected = embedder.encode([LONG, "bad"], role="document", on_long="truncate")
    np.testing.assert_array_equal(in_order(rows, ["rows:1", "rows:2"]), expected)
    assert summary.dropped_tokens == 24 + 3 - 16  # [CLS], the prompt and [SEP] take 3


def test_chunks_are_entries_whose_offsets_cover_the_text(stored, embedder):
    _, rows = stored([LONG, "bad"], on_long="chunks")
    entries = [entry for entry, _ in rows["rows:1"]]
    assert [entry.chunk for entry in entries] == [0, 1, 2]
    assert all(entry.text == LONG[entry.start : entry.end] for entry in entries)
    assert (entries[0].start, entries[-1].end) == (0, len(LONG))
    assert all(a.end >= b.start for a, b in itertools.pairwise(entries))
    assert len({entry.id for entry in entries}) == 3
    for entry, vector in rows["rows:1"]:  # each is what the chunk alone would give
        alone = embedder.encode([entry.text], role="document", on_long="error")[0]
        np.testing.assert_allclose(vector, alone, atol=1e-5)
    assert [entry.text for entry, _ in rows["rows:2"]] == ["bad"]


def test_a_text_too_long_under_error_is_a_bad_row(stored, tmp_path):
    summary, rows = stored([LONG, "bad"], on_long="error")
    assert list(rows) == ["rows:2"]
    assert summary.quarantined == 1
    line = json.loads((tmp_path / "store.db.quarantine.jsonl").read_text())
    assert line["reason"] == "the text has 27 tokens, more than 16"


def test_token_vectors_are_those_of_encode_tokens(stored, embedder):
    summary, rows = stored(TEXTS, token_vectors=True)
    expected = embedder.encode_tokens(TEXTS, role="document")
    for number, (text, tokens) in enumerate(zip(TEXTS, expected, strict=True), start=1):
        own = rows[f"rows:{number}"]
        np.testing.assert_array_equal([vector for _, vector in own], tokens.vectors)
        assert [(entry.start, entry.end) for entry, _ in own] == tokens.offsets
        assert all(entry.text == text[entry.start : entry.end] for entry, _ in own)
    assert summary.entries == sum(len(one.vectors) for one in expected)


def test_token_vectors_have_no_int8(stored):
    with pytest.raises(InputError, match="of texts, not of tokens"):
        stored(TEXTS, token_vectors=True, dtype="int8")


def test_token_vectors_and_chunks_contradict_each_other(stored):
    with pytest.raises(InputError, match="one for each token"):
        stored(TEXTS, token_vectors=True, on_long="chunks")


def test_the_identity_says_what_the_vectors_are(stored, tmp_path):
    stored(TEXTS, dtype="binary", truncate_dim=4, on_long="chunks")
    with open_store(f"sqlite:{tmp_path / 'store.db'}", read_only=True) as store:
        found = store.identity
    assert (found.backend, found.precision, found.pooling) == ("onnx", "fp32", "mean")
    assert (found.normalize, found.role, found.dim, found.dtype) == (True, "document", 4, "binary")
    assert (found.max_length, found.long, found.per_token) == (16, "chunks", False)
    assert found.prompts == {"query": "good ", "document": "the "}
    assert len(found.bundle) == 64


def test_tokens_are_counted_with_the_special_ones(stored):
    summary, _ = stored(["good film", "a"])
    assert summary.tokens == 5 + 4  # [CLS] the … [SEP]
