"""Texts to token ids, with the bundle's own ``tokenizer.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from edgebert.errors import DamagedBundleError, InputError
from edgebert.formats.manifest import TOKENIZER_NAME
from edgebert.inputs import check_choice, check_texts
from edgebert.text.offsets import ExactOffsets
from edgebert.text.tokenizer_errors import blamed_on
from edgebert.types import IntArray


@dataclass(frozen=True)
class Encoding:
    """One text, or one pair of texts, as token ids.

    Attributes:
        input_ids: Special tokens included, int64 ``[seq]``.
        token_type_ids: 1 for the second text of a pair where the model tells them apart, else 0,
            int64 ``[seq]``.
        offsets: Start and end of each token in characters of its text; ``(0, 0)`` for a special.
        special_tokens_mask: 1 for a token that the tokenizer added, int64 ``[seq]``.
        text_ids: Which text a token is of: 0, 1 for the second of a pair, or -1 for a token that
            the tokenizer added, int64 ``[seq]``. Unlike ``token_type_ids`` it's always told apart.
        word_ids: Which word of its text a token is of, as the tokenizer splits words, from 0; or
            -1 for a token that the tokenizer added, int64 ``[seq]``.
        dropped_tokens: How many tokens were cut off to fit the maximum length.
    """

    input_ids: IntArray
    token_type_ids: IntArray
    offsets: list[tuple[int, int]]
    special_tokens_mask: IntArray
    text_ids: IntArray
    word_ids: IntArray
    dropped_tokens: int

    def __len__(self) -> int:
        return len(self.input_ids)

    def take(self, kept: IntArray, *, dropped_tokens: int) -> Encoding:
        """Give an encoding of some of the tokens.

        Args:
            kept: Their places in this one, rising, int64 ``[kept]``.
            dropped_tokens: What the new one says of itself.
        """
        return Encoding(
            input_ids=self.input_ids[kept],
            token_type_ids=self.token_type_ids[kept],
            offsets=[self.offsets[i] for i in kept],
            special_tokens_mask=self.special_tokens_mask[kept],
            text_ids=self.text_ids[kept],
            word_ids=self.word_ids[kept],
            dropped_tokens=dropped_tokens,
        )


class Tokenizer:
    """A Hugging Face fast tokenizer that never changes once it is made.

    Padding and truncation of ``tokenizer.json`` are switched off at the start. Truncation is done
    here on each result: setting it in the tokenizer for a call would break other threads.
    A text that spells a special token, like ``"[SEP]"``, is plain text.
    """

    def __init__(self, directory: Path, *, special_ids: Mapping[str, int]) -> None:
        """Read ``directory/tokenizer.json``.

        Args:
            directory: A bundle or a checkpoint.
            special_ids: Ids by name; ``pad_token_id`` is needed.

        Raises:
            DamagedBundleError: The file is missing or can't be read, or has no such padding token.
        """
        self._path = path = Path(directory) / TOKENIZER_NAME
        if not path.is_file():
            raise DamagedBundleError(f"{path} is missing; make the directory again.")
        self.mask_id = special_ids.get("mask_token_id")
        self.pad_id = int(special_ids["pad_token_id"])
        self._masking: tokenizers.Tokenizer | None = None
        with blamed_on(path):
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
            self._tokenizer.encode_special_tokens = True
            self._exact = ExactOffsets(self._tokenizer)
            if self._tokenizer.id_to_token(self.pad_id) is None:
                raise DamagedBundleError(
                    f"{path} has no token with the pad_token_id {self.pad_id}."
                )

    def num_special_tokens(self, pair: bool) -> int:
        """Count the tokens that are added to a text, or to a pair of texts."""
        with blamed_on(self._path):
            return int(self._tokenizer.num_special_tokens_to_add(pair))

    def encode(
        self,
        texts: Iterable[str],
        text_pairs: Iterable[str] | None = None,
        *,
        max_length: int | None,
        on_long: str = "truncate",
        masks: bool = False,
        names: Sequence[str] | None = None,
    ) -> list[Encoding]:
        """Turn texts, or pairs of texts, into ids.

        Args:
            texts: Any number of texts; ``""`` gives the special tokens alone.
            text_pairs: The second text of each, or None.
            max_length: Longest result, special tokens included, or None for no limit. Tokens are
                cut from the end; of a pair, from the longer text first.
            on_long: ``"truncate"`` or ``"error"``.
            masks: Whether the mask token's text, like ``[MASK]``, is that token and no plain text.
            names: What the error of a long text calls each; by default ``texts[0]`` and so on.

        Returns:
            One `Encoding` a text, in order.

        Raises:
            InputError: A text is no valid string, the two lists differ in length, ``max_length``
                has no room for a token, or a text is too long and ``on_long`` is ``"error"``.
            DamagedBundleError: The library can't do it with this ``tokenizer.json``.
        """
        check_choice("on_long", on_long, ("error", "truncate"))
        inputs = _inputs(texts, text_pairs)
        if max_length is not None:
            self._check_room(max_length, pair=text_pairs is not None)
        with blamed_on(self._path):
            encoded = (self._with_mask() if masks else self._tokenizer).encode_batch(inputs)
        if max_length is not None and on_long == "error":
            _refuse_long([len(one.ids) for one in encoded], max_length, names)
        return [
            _truncated(self._with_exact_offsets(given, _encoding(one)), max_length)
            for given, one in zip(inputs, encoded, strict=True)
        ]

    @property
    def mask_token(self) -> str:
        """Text of the mask token, like ``[MASK]``.

        Raises:
            DamagedBundleError: ``special_ids`` has no ``mask_token_id``, or no token has that id.
        """
        token = None if self.mask_id is None else self._tokenizer.id_to_token(self.mask_id)
        if token is None:
            raise DamagedBundleError(
                f"No mask can be filled: {self._path} has no token with the mask_token_id "
                f"{self.mask_id} of the manifest. Make the bundle again."
            )
        return str(token)

    @cached_property
    def ids(self) -> IntArray:
        """Ids that a token has, rising, int64 ``[tokens]``; there may be gaps between them."""
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        return np.unique(np.array(list(vocabulary.values()), dtype=np.int64))

    def text_of(self, token_id: int) -> str:
        """Give a token as text, without what tells that a word begins or goes on."""
        decoded = self._tokenizer.decode([token_id], skip_special_tokens=False).strip()
        prefix = getattr(self._tokenizer.model, "continuing_subword_prefix", None)
        return str(decoded).removeprefix(prefix or "")

    def _with_mask(self) -> tokenizers.Tokenizer:
        """Give a second tokenizer, which finds the mask token in a text.

        The library takes special tokens in a text for plain text, as it was told to, but finds
        other added tokens, with the spaces around them that they swallow. So to this tokenizer the
        mask is an added token that isn't special.
        """
        if self._masking is None:
            settings = json.loads(self._tokenizer.to_str())
            mask = self.mask_token
            for token in settings["added_tokens"]:
                token["special"] = token["special"] and token["content"] != mask
            made = tokenizers.Tokenizer.from_str(json.dumps(settings))
            if all(token["content"] != mask for token in settings["added_tokens"]):
                made.add_tokens([tokenizers.AddedToken(mask, normalized=False, special=False)])
            made.encode_special_tokens = True
            self._masking = made  # made twice when two threads come at once, which does no harm
        return self._masking

    def _with_exact_offsets(self, given: str | tuple[str, str], encoding: Encoding) -> Encoding:
        texts = (given,) if isinstance(given, str) else given
        if not any(map(self._exact.needed, texts)):
            return encoding
        spans = self._exact.spans(texts, encoding.input_ids.tolist())
        return encoding if spans is None else replace(encoding, offsets=spans)

    def _check_room(self, max_length: int, *, pair: bool) -> None:
        specials = self.num_special_tokens(pair)
        if max_length <= specials:
            raise InputError(
                f"max_length is {max_length}, but {specials} special tokens are counted in it; "
                f"it must be {specials + 1} or more."
            )


def _inputs(texts: Iterable[str], text_pairs: Iterable[str] | None) -> list[Any]:
    """Check the texts, and give them as the library takes them: strings, or tuples of two."""
    firsts = check_texts(texts)
    if text_pairs is None:
        return list(firsts)
    seconds = check_texts(text_pairs, name="text_pairs")
    if len(seconds) != len(firsts):
        raise InputError(
            f"There are {len(firsts)} texts and {len(seconds)} text_pairs; each text needs its own."
        )
    return list(zip(firsts, seconds, strict=True))


def _refuse_long(lengths: list[int], max_length: int, names: Sequence[str] | None) -> None:
    too_long = [i for i, length in enumerate(lengths) if length > max_length]
    if too_long:
        shown = ", ".join(
            f"{names[i] if names else f'texts[{i}]'}: {lengths[i]}" for i in too_long[:10]
        )
        raise InputError(
            f"{len(too_long)} texts have more than {max_length} tokens ({shown}). Shorten them, "
            "raise max_length where the model allows it, or give on_long='truncate' or 'window'."
        )


def _encoding(encoded: tokenizers.Encoding) -> Encoding:
    specials = np.array(encoded.special_tokens_mask, dtype=np.int64)
    return Encoding(
        input_ids=np.array(encoded.ids, dtype=np.int64),
        token_type_ids=np.array(encoded.type_ids, dtype=np.int64),
        offsets=encoded.offsets,
        special_tokens_mask=specials,
        text_ids=_numbered(encoded.sequence_ids, specials),
        word_ids=_numbered(encoded.word_ids, specials),
        dropped_tokens=0,
    )


def _numbered(numbers: list[int | None], specials: IntArray) -> IntArray:
    known = np.array([-1 if n is None else n for n in numbers], dtype=np.int64)
    return np.where(specials == 1, -1, known)


def _truncated(encoding: Encoding, max_length: int | None) -> Encoding:
    dropped = 0 if max_length is None else max(0, len(encoding) - max_length)
    if not dropped:
        return encoding
    owner = encoding.text_ids
    room = len(encoding) - dropped - int((owner == -1).sum())
    counts = int((owner == 0).sum()), int((owner == 1).sum())
    keep = owner == -1
    for text, length in enumerate(longest_first(*counts, room=room)):
        keep[np.flatnonzero(owner == text)[:length]] = True
    return encoding.take(np.flatnonzero(keep), dropped_tokens=dropped)


def longest_first(first: int, second: int, *, room: int) -> tuple[int, int]:
    """Share ``room`` tokens between two texts, cutting the longer one first.

    The same numbers as the ``longest_first`` of Hugging Face's tokenizers, which gives the odd
    token to the longer text, and to the second one of two that are equally long.
    """
    if first + second <= room:
        return first, second
    short, long = min(first, second), max(first, second)
    if 2 * short > room:
        short = room // 2
    long = room - short
    return (long, short) if first > second else (short, long)
