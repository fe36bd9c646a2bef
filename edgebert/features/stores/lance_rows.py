"""A store's entries and vectors as a table of LanceDB's: its columns, rows and filters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgebert.features.entries import Entry, Identity, Scalar, Vectors
from edgebert.features.stores.checks import width
from edgebert.features.stores.facts import facts_asked, facts_of

COLUMNS = ["id", "key", "chunk", "start", "end", "text", "metadata"]
_IDENTITY = b"edgebert"


def schema_of(identity: Identity) -> Any:
    """Give the Arrow schema of a store's table; its metadata holds the identity."""
    import pyarrow as pa  # type: ignore[import-untyped]

    number = {"float32": pa.float32(), "float16": pa.float16(), "int8": pa.int8()}
    vector = pa.list_(number.get(identity.dtype, pa.uint8()), width(identity))
    types = {name: pa.string() for name in COLUMNS} | {
        "chunk": pa.int64(),
        "start": pa.int64(),
        "end": pa.int64(),
        "facts": pa.list_(pa.string()),
        "vector": vector,
    }
    fields = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    return pa.schema(fields, metadata={_IDENTITY: identity.to_json()})


def identity_in(schema: Any) -> Identity | None:
    """Read the identity that `schema_of` has put into a schema."""
    text = (schema.metadata or {}).get(_IDENTITY)
    return None if text is None else Identity.from_json(text.decode())


def rows_of(entries: Sequence[Entry], vectors: Vectors, identity: Identity) -> Any:
    """Give an Arrow table of what is to be written."""
    import pyarrow as pa

    schema = schema_of(identity)
    columns: dict[str, Any] = {
        name: [getattr(entry, name) for entry in entries] for name in COLUMNS
    }
    columns["metadata"] = [
        json.dumps(dict(entry.metadata), ensure_ascii=False) for entry in entries
    ]
    columns["facts"] = [facts_of(entry) for entry in entries]
    numbers = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    columns["vector"] = pa.FixedSizeListArray.from_arrays(numbers, width(identity))
    return pa.table(columns, schema=schema)


def entries_in(batch: Any) -> list[Entry]:
    """Read the entries of a record batch that has `COLUMNS`."""
    return [
        Entry(**{**row, "metadata": json.loads(row["metadata"])})
        for row in batch.select(COLUMNS).to_pylist()
    ]


def vectors_in(batch: Any, identity: Identity) -> Vectors:
    """Read the vectors of a record batch, bit for bit."""
    flat = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
    vectors: Vectors = flat.reshape(-1, width(identity))
    return vectors


def filter_of(where: Mapping[str, Scalar] | None) -> str | None:
    """Write a filter of digests, which hold nothing but hexadecimal digits."""
    needed, refused = facts_asked(where)
    parts = [f"array_has(facts, '{fact}')" for fact in needed]
    parts += [f"NOT array_has(facts, '{fact}')" for fact in refused]
    return " AND ".join(parts) or None
