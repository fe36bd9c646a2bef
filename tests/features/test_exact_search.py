"""The search that all stores share, against the definition in plain Python floats."""

from __future__ import annotations

import numpy as np
import pytest

from edgebert.features.entries import Entry
from edgebert.features.stores.exact import matches, nearest
from tests.features.store_data import DTYPES, expected_order, identity_of, vectors_of


def blocks_of(names, vectors, size):
    return [
        (names[first : first + size], vectors[first : first + size])
        for first in range(0, len(names), size)
    ]


def names_of(count):
    return [f"{(row * 7919) % count:032x}" for row in range(count)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_blocks_of_any_size_give_the_order_of_the_definition(dtype, size):
    names, vectors, identity = names_of(300), vectors_of(300, dtype), identity_of(dtype)
    vectors[200:230] = vectors[3]  # ties across blocks
    entries = [Entry(id=name, key="", chunk=0, start=0, end=0, text="") for name in names]
    for seed in range(3):
        query = vectors_of(1, seed=seed + 1)[0]
        expected = expected_order(entries, vectors, query, identity)
        for k in (1, 20, 299, 400):
            found = nearest(blocks_of(names, vectors, size), query, k, identity)
            assert [name for name, _ in found] == [name for name, _ in expected[:k]]


@pytest.mark.parametrize("scale", [1e-38, 1e-25, 1e-15, 1e15, 1e25, 1e37])
@pytest.mark.parametrize("query_scale", [1e-38, 1, 1e37])
def test_length_has_no_say(scale, query_scale):
    names, identity = names_of(90), identity_of()
    plain = vectors_of(90) / 64
    query = vectors_of(1, seed=3)[0] / 64
    expected = [name for name, _ in nearest([(names, plain)], query, 10, identity)]
    vectors = plain.copy()
    vectors[::2] *= np.float32(scale)
    found = nearest(blocks_of(names, vectors, 20), query * np.float32(query_scale), 10, identity)
    assert [name for name, _ in found] == expected


def test_a_query_of_zeros_is_like_nothing():
    vectors = np.concatenate([vectors_of(20), np.zeros((20, 16), np.float32)])
    found = nearest(blocks_of(names_of(40), vectors, 7), np.zeros(16, np.float32), 9, identity_of())
    assert found == [(name, 0.0) for name in sorted(names_of(40))[:9]]


def test_what_float32_can_t_tell_apart_is_told_apart():
    random = np.random.default_rng(0)
    query = random.standard_normal(384).astype(np.float32)
    noise = random.standard_normal((3000, 384)) * random.uniform(3e-4, 1e-3, (3000, 1))
    vectors = (query + noise).astype(np.float32)
    full = vectors.astype(np.float64)
    lengths = np.linalg.norm(full, axis=1) * np.linalg.norm(query.astype(np.float64))
    cosines = (full @ query.astype(np.float64) / lengths).astype(np.float32)
    order = sorted(zip(-cosines, names_of(3000), strict=True))
    found = nearest(blocks_of(names_of(3000), vectors, 700), query, 50, identity_of(dim=384))
    assert [name for name, _ in found] == [name for _, name in order[:50]]


def test_the_same_vector_has_the_same_score_wherever_it_stands():
    vectors = np.repeat(np.random.default_rng(0).standard_normal((1, 384), np.float32), 101, axis=0)
    identity = identity_of(dim=384)
    query = np.random.default_rng(1).standard_normal(384).astype(np.float32)
    found = nearest(blocks_of(names_of(101), vectors, 33), query, 101, identity)
    assert len({score for _, score in found}) == 1
    assert [name for name, _ in found] == sorted(names_of(101))


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ({"n": 1}, True),
        ({"n": 1.0}, True),
        ({"n": True}, False),
        ({"n": "1"}, False),
        ({"yes": True}, True),
        ({"yes": 1}, False),
        ({"none": None}, True),
        ({"absent": None}, True),
        ({"n": None}, False),
        ({"key": "k"}, True),
        ({"key": "metadata"}, False),
        ({"n": 1, "yes": False}, False),
        ({}, True),
        (None, True),
    ],
)
def test_metadata_match_by_value_and_kind(where, answer):
    metadata = {"n": 1, "yes": True, "none": None, "key": "metadata"}
    entry = Entry(id="0", key="k", chunk=0, start=0, end=0, text="", metadata=metadata)
    assert matches(entry, where) is answer
