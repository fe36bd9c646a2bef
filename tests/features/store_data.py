"""What the stores' tests write, and an independent search to compare theirs with."""

from __future__ import annotations

import numpy as np

from edgebert.features.entries import Entry, Identity, entry_id

DIM = 16
DTYPES = ("float32", "float16", "int8", "binary")
ODD_NAMES = ("", "key.a", 'qu"ote', "it's", "id", "text", "vector", "$.x", "a'); DROP TABLE x;--")
ODD_TEXTS = (
    "",
    "Zürich 東京",
    'it\'s "quoted" \\ back',
    "🙂👩‍👩‍👧",
    "line\nbreak\ttab\r\n",
    "%s {} ?",
)


def identity_of(dtype="float32", **changes):
    facts = {
        "bundle": "ab" * 32,
        "backend": "onnx",
        "precision": "fp32",
        "pooling": "mean",
        "normalize": False,
        "prompts": {"query": "frage: ", "document": "it's «text»: "},
        "role": "document",
        "dim": DIM,
        "dtype": dtype,
        "int8_scale": tuple(0.01 * (one + 1) for one in range(DIM)) if dtype == "int8" else (),
        "max_length": 128,
        "long": "chunks",
    }
    return Identity(**{**facts, **changes})


def entry_of(key, metadata=None, *, chunk=0, text=None):
    text = f"text of {key}" if text is None else text
    end = 5 + len(text)
    return Entry(
        id=entry_id(key, chunk, text),
        key=key,
        chunk=chunk,
        start=5,
        end=end,
        text=text,
        metadata=metadata or {},
    )


def entries_of(count, *, first=0):
    """Give entries with metadata of every type, in no order of their ids."""
    return [
        entry_of(
            f"row-{row}",
            {
                "lang": ("de", "en", "it's")[row % 3],
                "year": 2000 + row % 5,
                "share": row / 8,
                "good": row % 2 == 0,
                "note": None if row % 4 else "1",
            },
            chunk=row % 3,
        )
        for row in range(first, first + count)
    ]


def vectors_of(count, dtype="float32", *, seed=0):
    """Give vectors of every length, in the form of a dtype."""
    random = np.random.default_rng(seed)
    if dtype == "int8":
        return random.integers(-128, 128, (count, DIM), dtype=np.int8)
    if dtype == "binary":
        return random.integers(0, 256, (count, DIM // 8), dtype=np.uint8)
    lengths = random.uniform(0.1, 10, (count, 1))
    return (random.standard_normal((count, DIM)) * lengths).astype(dtype)


def expected_scores(vectors, query, identity):
    """Score each vector by the definition, one at a time, in plain Python floats."""
    found = []
    for vector in vectors:
        if identity.dtype == "binary":
            bits = "".join(f"{byte:08b}" for byte in vector.tolist())[: identity.dim]
            same = [(bit == "1") == (one > 0) for bit, one in zip(bits, query, strict=True)]
            found.append(sum(same) / identity.dim)
            continue
        scale = identity.int8_scale or [1.0] * identity.dim
        full = [float(one) * step for one, step in zip(vector, scale, strict=True)]
        dot = sum(a * float(b) for a, b in zip(full, query, strict=True))
        norm = sum(a * a for a in full) ** 0.5 * sum(float(b) ** 2 for b in query) ** 0.5
        found.append(dot / norm)
    return found


def expected_order(entries, vectors, query, identity):
    """Give ids with scores, the best first, ties by id."""
    found = expected_scores(vectors, query, identity)
    pairs = zip([entry.id for entry in entries], found, strict=True)
    return sorted(pairs, key=lambda pair: (-round(pair[1], 9), pair[0]))


def batch(number):
    """Give the entries and vectors of one write of `tests.features.store_child`."""
    return entries_of(8, first=8 * number), vectors_of(8, seed=number)
