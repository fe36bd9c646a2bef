"""Metadata as facts: digests that a store can look for, whatever their names and values are.

What a caller asks for never stands in a store's own query, so no name and no value can change what
the query means, and every type can be asked for, also those that a store has no filter for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache

from edgebert.features.entries import Entry, Scalar

_DIGITS = 32  # 128 bits: no two facts of a store share them


def facts_of(entry: Entry) -> list[str]:
    """Give an entry's facts: what each of its metadata is, that it has it, and its key."""
    given = {name: value for name, value in entry.metadata.items() if value is not None}
    facts = [_fact("is", name, value) for name, value in given.items()]
    return [*facts, *(_fact("has", name) for name in given), _fact("key", entry.key)]


def facts_asked(where: Mapping[str, Scalar] | None) -> tuple[list[str], list[str]]:
    """Say what a filter asks for, in the sense of `edgebert.features.stores.exact.matches`.

    Returns:
        Facts that an entry must have, and facts that it must not have.
    """
    needed, refused = [], []
    for name, value in (where or {}).items():
        if name == "key":
            needed.append(_fact("key", value))
        elif value is None:
            refused.append(_fact("has", name))
        else:
            needed.append(_fact("is", name, value))
    return needed, refused


@lru_cache(maxsize=4096, typed=True)  # names and many values are those of the last row
def _fact(*parts: Scalar) -> str:
    plain = [int(one) if isinstance(one, float) and one.is_integer() else one for one in parts]
    line = json.dumps(plain)  # where 1.0 is 1, and true isn't
    return hashlib.sha256(line.encode()).hexdigest()[:_DIGITS]
