"""An entry and its vector as the JSON that Qdrant and Chroma keep beside a point.

These engines keep a vector to search it: as float32, and of unit length where they compare by
cosine. So the vector as it was put stands here too, its bytes in base64: it comes back bit for bit
in every form, for the same bytes again and a third more. Likewise an entry's metadata stand here
as one line of JSON, for None, for large whole numbers, and so that 1.0 doesn't become 1.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgebert.features.entries import Entry, Identity, Vectors
from edgebert.features.stores.checks import FORMS, no_vectors, width

VECTOR, ENTRY = "edgebert_vector", "edgebert_entry"


def payload_of(entry: Entry, vector: Vectors) -> dict[str, str]:
    """Write all of an entry but its id and text, and its vector ``[width]``."""
    row = {"key": entry.key, "chunk": entry.chunk, "start": entry.start, "end": entry.end}
    line = json.dumps({**row, "metadata": dict(entry.metadata)}, ensure_ascii=False)
    return {ENTRY: line, VECTOR: base64.b64encode(vector.tobytes()).decode("ascii")}


def entry_in(payload: Mapping[str, Any], *, name: str, text: str) -> Entry:
    """Read what `payload_of` wrote."""
    return Entry(id=name, text=text, **json.loads(payload[ENTRY]))


def vectors_in(payloads: Sequence[Mapping[str, Any]], identity: Identity | None) -> Vectors:
    """Read the vectors of some payloads, ``[n, width]``."""
    if not payloads or identity is None:
        return no_vectors(identity)
    data = b"".join(base64.b64decode(payload[VECTOR]) for payload in payloads)
    return np.frombuffer(data, FORMS[identity.dtype]).reshape(len(payloads), width(identity))
