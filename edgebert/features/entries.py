"""What a store holds: entries under their ids, and the identity that all its vectors share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy.typing as npt

from edgebert.errors import InputError

Scalar: TypeAlias = str | int | float | bool | None
Vectors: TypeAlias = npt.NDArray[Any]  # float32, float16 or int8 [n, dim]; uint8 [n, dim / 8]

ID_LENGTH = 32  # hexadecimal digits, so an id can be written as a UUID


def entry_id(key: str, chunk: int, text: str) -> str:
    """Name an entry by where it comes from and what it says: 32 hexadecimal digits of SHA-256."""
    facts = json.dumps([key, chunk, text], ensure_ascii=False)
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:ID_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A piece of a source's text, all that a store keeps of it but its vector.

    Attributes:
        id: See `entry_id`.
        key: Of the source row: its id column, or its place in its file.
        chunk: Which piece of that row's text, from 0.
        start: Where it begins in the row's text, in characters.
        end: Where it ends.
        text: The piece.
        metadata: Columns that were carried along.
    """

    id: str
    key: str
    chunk: int
    start: int
    end: int
    text: str
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An entry that was found.

    Attributes:
        entry: What was found.
        score: How alike it and the query are, more is better: cosine from -1 to 1; of ``binary``
            vectors the part of the bits that agree, from 0 to 1.
    """

    entry: Entry
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What vectors have in common that may be compared with each other.

    Attributes:
        bundle: SHA-256 of what defines the model: weights and tokenizer.
        backend: Engine of the artifact that ran.
        precision: Of the artifact: ``fp32``, ``int8``, ``int4``.
        pooling: How the vectors of tokens become one.
        normalize: Whether vectors have unit length.
        prompts: By role, put before a text.
        role: Whose prompt the entries got; None for none.
        dim: Dimensions of a vector, also of a ``binary`` one, whose bytes are an eighth.
        dtype: ``float32``, ``float16``, ``int8`` or ``binary``.
        int8_scale: Of ``int8``: what one step is worth, by dimension; else empty.
        max_length: Longest input in tokens.
        long: What became of longer texts: ``error``, ``truncate``, ``windows`` (one vector, the
            mean of its windows) or ``chunks`` (an entry each).
        per_token: Whether an entry is a token of a text.
    """

    bundle: str
    backend: str
    precision: str
    pooling: str
    normalize: bool
    prompts: Mapping[str, str]
    role: str | None
    dim: int
    dtype: str
    int8_scale: tuple[float, ...] = ()
    max_length: int
    long: str
    per_token: bool = False

    def to_json(self) -> str:
        """Write it as one line of JSON, keys sorted."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Identity:
        """Read what `to_json` wrote.

        Raises:
            InputError: It isn't that.
        """
        try:
            data = json.loads(text)
            data["int8_scale"] = tuple(data["int8_scale"])
            return cls(**data)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"The store's identity can't be read ({error}); it was written by another version "
                "or is damaged. Extract anew into an empty place."
            ) from error

    def require(self, other: Identity, *, place: str) -> None:
        """Refuse vectors of another identity.

        Args:
            other: Of what is to be put or asked.
            place: The store, for the message.

        Raises:
            InputError: They differ; every difference is named.
        """
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        wrong = [
            f"{key} {mine[key]!r:.80}, not {theirs[key]!r:.80}"
            for key in mine
            if mine[key] != theirs[key]
        ]
        if wrong:
            raise InputError(
                f"{place} holds vectors of another kind: {'; '.join(wrong)}. Use the bundle and "
                "the settings that it was made with, another store, or --into-new to embed anew."
            )
