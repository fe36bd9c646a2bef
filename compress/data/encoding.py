"""Texts become token ids once, before training, and padded tensors batch by batch."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from edgebert.errors import InputError, ModelError

if TYPE_CHECKING:
    from edgebert.text.tokenizer import Encoding, Tokenizer

logger = logging.getLogger(__name__)

TokenArray: TypeAlias = npt.NDArray[np.int32]
RowArray: TypeAlias = npt.NDArray[np.int64]

_CHUNK_TEXTS = 4096  # bounds the memory that the tokenizer's own objects take


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """The token ids of many texts, not padded.

    Attributes:
        input_ids: One int32 ``[seq]`` a text, special tokens included.
        token_type_ids: One int32 ``[seq]`` a text; 1 for the second text of a pair.
        sha256: Of all ids and where each text ends, in hex.
        dropped_tokens: How many tokens were cut off, over all texts.
    """

    input_ids: list[TokenArray]
    token_type_ids: list[TokenArray]
    sha256: str
    dropped_tokens: int = 0

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> RowArray:
        """Tokens of each text, int64 ``[texts]``."""
        return np.fromiter((ids.size for ids in self.input_ids), np.int64, len(self))


def encode_texts(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    max_length: int,
) -> EncodedTexts:
    """Encode texts or pairs as the runtime will, and log once what was cut off.

    Args:
        tokenizer: The one that goes into the bundle.
        texts: First texts.
        text_pairs: Second texts, one for each of ``texts``.
        max_length: Longest input in tokens, special tokens included; the rest is cut.

    Raises:
        InputError: ``texts`` and ``text_pairs`` differ in number.
    """
    if text_pairs is not None and len(text_pairs) != len(texts):
        raise InputError(f"{len(texts)} texts but {len(text_pairs)} second texts; give as many.")
    parts: list[EncodedTexts] = []
    cut = 0
    for start in range(0, len(texts), _CHUNK_TEXTS):
        part = slice(start, start + _CHUNK_TEXTS)
        pairs = None if text_pairs is None else list(text_pairs[part])
        encodings = tokenizer.encode(list(texts[part]), pairs, max_length=max_length)
        cut += sum(1 for encoding in encodings if encoding.dropped_tokens)
        parts.append(pack_encodings(encodings))
    joined = join_encoded(parts)
    if cut:
        logger.warning(
            "%d of %d texts are longer than %d tokens; %d tokens were cut off (--max-length).",
            *(cut, len(texts), max_length, joined.dropped_tokens),
        )
    return joined


def require_known_ids(encoded: EncodedTexts, vocab_size: int) -> None:
    """Refuse a tokenizer that gives ids which a model's table of embeddings has no row for.

    Raises:
        ModelError: There is such an id.
    """
    require_known_id(
        max((int(ids.max()) for ids in encoded.input_ids if ids.size), default=0), vocab_size
    )


def require_known_id(largest: int, vocab_size: int) -> None:
    """Refuse the largest id of a tokenizer where a model's table of embeddings has no row for it.

    Raises:
        ModelError: It hasn't.
    """
    if largest >= vocab_size:
        raise ModelError(
            f"The tokenizer gives the id {largest}, but the model has {vocab_size} tokens: they "
            "don't belong together. Resize the model's embeddings, or take its own tokenizer."
        )


def pack_encodings(encodings: Sequence[Encoding]) -> EncodedTexts:
    """Keep the ids of encodings, one row each."""
    input_ids = [encoding.input_ids.astype(np.int32) for encoding in encodings]
    token_type_ids = [encoding.token_type_ids.astype(np.int32) for encoding in encodings]
    dropped = sum(encoding.dropped_tokens for encoding in encodings)
    return EncodedTexts(input_ids, token_type_ids, _digest(input_ids, token_type_ids), dropped)


def join_encoded(parts: Sequence[EncodedTexts]) -> EncodedTexts:
    """Put the rows of several encodings behind each other."""
    input_ids = [ids for part in parts for ids in part.input_ids]
    token_type_ids = [types for part in parts for types in part.token_type_ids]
    dropped = sum(part.dropped_tokens for part in parts)
    return EncodedTexts(input_ids, token_type_ids, _digest(input_ids, token_type_ids), dropped)


def _digest(input_ids: list[TokenArray], token_type_ids: list[TokenArray]) -> str:
    digest = hashlib.sha256()
    for ids, types in zip(input_ids, token_type_ids, strict=True):
        digest.update(len(ids).to_bytes(4, "little"))
        digest.update(ids.tobytes())
        digest.update(types.tobytes())
    return digest.hexdigest()


def collate(
    encoded: EncodedTexts,
    rows: RowArray,
    *,
    pad_id: int,
    device: torch.device | str = "cpu",
) -> dict[str, Tensor]:
    """Pad some rows on the right to the longest of them.

    Args:
        encoded: The texts.
        rows: Which of them, in which order, int64 ``[B]``.
        pad_id: What fills ``input_ids``.
        device: Where the tensors go.

    Returns:
        ``input_ids``, ``attention_mask`` and ``token_type_ids``, each int64 ``[B, S]``, and
        ``rows``, int64 ``[B]``.
    """
    ids = [encoded.input_ids[row] for row in rows]
    lengths = np.fromiter((one.size for one in ids), np.int64, len(ids))
    real = np.arange(int(lengths.max(initial=0))) < lengths[:, None]  # [B, S]
    input_ids = np.full(real.shape, pad_id, np.int64)
    token_type_ids = np.zeros(real.shape, np.int64)
    if ids:
        input_ids[real] = np.concatenate(ids)  # a mask is filled row by row, so in the rows' order
        token_type_ids[real] = np.concatenate([encoded.token_type_ids[row] for row in rows])
    arrays = {
        "input_ids": input_ids,
        "attention_mask": real.astype(np.int64),
        "token_type_ids": token_type_ids,
        "rows": np.asarray(rows, np.int64),
    }
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
