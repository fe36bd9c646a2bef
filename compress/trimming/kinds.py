"""WordPiece, BPE and Unigram: which pieces of a ``tokenizer.json`` can go, and how they go.

With all pieces of a text kept, whatever else goes, the text is split as before:

- WordPiece takes the longest piece at each place. Where that one is kept, no shorter one is taken.
  A word that is unknown may become known, when a piece that led to a dead end goes; those of the
  corpus stay.
- BPE does the merge of the lowest rank, again and again. All merges that lead to a kept piece are
  kept, in their order, so each of them is still the lowest of those that are left.
- Unigram takes the path of the highest score. A smaller vocabulary has fewer paths, and the best
  one is among them. One kind of path is new, over a character that is unknown now: it scores 10
  less than the worst of all pieces (which is kept, so that this stays as it was), and so less than
  the path over the character's own piece, which was no better than the best one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import pre_tokenizers

from edgebert.errors import ModelError

_BYTES = frozenset(pre_tokenizers.ByteLevel.alphabet())
_BYTE_PIECES = frozenset(f"<0x{byte:02X}>" for byte in range(256))


class Vocabulary(ABC):
    """The pieces of a tokenizer's model. A subclass is a kind of model.

    Attributes:
        ids: Id of each piece.
        unknown_id: Of the piece that stands for what no other does; None where there is none.
    """

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Take what ``tokenizer.json`` says under ``model``."""
        self._model = dict(model)
        self.ids = self._read_ids()
        self.unknown_id = self._read_unknown()

    def always_kept(self, characters: Iterable[str]) -> set[int]:
        """Give the ids that stay however rare they are: the unknown one, and single characters.

        Args:
            characters: Those of the corpus, as the tokenizer's normalizer leaves them.
        """
        seen = set(characters)
        unknown = set() if self.unknown_id is None else {self.unknown_id}
        return unknown | {i for piece, i in self.ids.items() if self._is_kept(piece, seen)}

    def parts(self, token_id: int) -> set[int]:
        """Give the ids without which a piece can't be made, with its own."""
        return {token_id}

    def stopping(self, word: str) -> list[int]:  # noqa: ARG002  a WordPiece looks at it
        """Give the ids by which a word came to be unknown; without them it might be known."""
        return []

    def cut(self, new_ids: Mapping[int, int]) -> dict[str, Any]:
        """Write the model anew, with the pieces of some ids alone.

        Args:
            new_ids: By old id, rising with it; of pieces that stay, and of tokens of other origin.
        """
        kept = {piece: new_ids[i] for piece, i in self.ids.items() if i in new_ids}
        return {**self._model, "vocab": kept}

    def _read_ids(self) -> dict[str, int]:
        return dict(self._model["vocab"])

    def _read_unknown(self) -> int | None:
        return self.ids.get(self._model.get("unk_token") or "")

    @abstractmethod
    def _is_kept(self, piece: str, seen: set[str]) -> bool:
        """Whether a piece stays as a single character or byte."""


class WordPiece(Vocabulary):
    """The longest piece that fits, from a word's start to its end."""

    def stopping(self, word: str) -> list[int]:
        """See `Vocabulary.stopping`: the pieces in front of the place where none fits."""
        found: list[int] = []
        start, prefix = 0, ""
        if len(word) > self._model["max_input_chars_per_word"]:
            return found
        while start < len(word):
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.ids), None)
            if end is None:
                return found
            found.append(self.ids[prefix + word[start:end]])
            start, prefix = end, self._model["continuing_subword_prefix"]
        return []

    def _is_kept(self, piece: str, seen: set[str]) -> bool:
        return piece.removeprefix(self._model["continuing_subword_prefix"]) in seen


class Bpe(Vocabulary):
    """Characters or bytes, put together pair by pair."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Take what ``tokenizer.json`` says under ``model``."""
        super().__init__(model)
        self._prefix = model.get("continuing_subword_prefix") or ""
        self._suffix = model.get("end_of_word_suffix") or ""
        self._pieces = {i: piece for piece, i in self.ids.items()}
        self._bytes = _BYTES if self.ids.keys() >= _BYTES else frozenset()
        self._made_of: dict[str, list[str]] = {}
        for left, right in model["merges"]:
            self._made_of.setdefault(self._merged(left, right), []).extend((left, right))

    def parts(self, token_id: int) -> set[int]:
        """See `Vocabulary.parts`: what all merges that lead to a piece go through."""
        found: set[int] = set()
        waiting = [token_id]
        while waiting:
            part = waiting.pop()
            if part not in found:
                found.add(part)
                waiting += [self.ids[piece] for piece in self._made_of.get(self._pieces[part], ())]
        return found

    def cut(self, new_ids: Mapping[int, int]) -> dict[str, Any]:
        """See `Vocabulary.cut`. A merge stays with its result, which brings its parts along."""
        made = super().cut(new_ids)
        merges = [pair for pair in self._model["merges"] if self._merged(*pair) in made["vocab"]]
        return {**made, "merges": merges}

    def _merged(self, left: str, right: str) -> str:
        return left + right.removeprefix(self._prefix)

    def _is_kept(self, piece: str, seen: set[str]) -> bool:
        if self._model.get("byte_fallback") and piece in _BYTE_PIECES:
            return True
        bare = piece.removeprefix(self._prefix).removesuffix(self._suffix)
        # without an unknown piece, a character that has none would be dropped and nobody told
        return len(bare) == 1 and (self.unknown_id is None or bare in seen or bare in self._bytes)


class Unigram(Vocabulary):
    """Pieces with scores; the best sum wins."""

    def always_kept(self, characters: Iterable[str]) -> set[int]:
        """See `Vocabulary.always_kept`: also the worst piece, by which unknowns are scored."""
        scores = [score for _, score in self._model["vocab"]]
        return super().always_kept(characters) | {scores.index(min(scores))}

    def cut(self, new_ids: Mapping[int, int]) -> dict[str, Any]:
        """See `Vocabulary.cut`; the places in the list are the ids."""
        kept = [entry for i, entry in enumerate(self._model["vocab"]) if i in new_ids]
        unknown = None if self.unknown_id is None else new_ids[self.unknown_id]
        return {**self._model, "vocab": kept, "unk_id": unknown}

    def _read_ids(self) -> dict[str, int]:
        return {piece: i for i, (piece, _) in enumerate(self._model["vocab"])}

    def _read_unknown(self) -> int | None:
        found: int | None = self._model["unk_id"]
        return found

    def _is_kept(self, piece: str, seen: set[str]) -> bool:
        return piece in seen or bool(self._model.get("byte_fallback") and piece in _BYTE_PIECES)


KINDS: dict[str, type[Vocabulary]] = {"BPE": Bpe, "Unigram": Unigram, "WordPiece": WordPiece}


def vocabulary_of(model: Mapping[str, Any], *, source: object) -> Vocabulary:
    """Read the model of a ``tokenizer.json``.

    Args:
        model: What it says under ``model``, as the library writes it.
        source: What an error calls it.

    Raises:
        ModelError: It is of a kind that can't be cut.
    """
    kind = str(model.get("type"))
    if kind not in KINDS:
        raise ModelError(
            f"{source} has a vocabulary of the kind {kind}; one of {', '.join(KINDS)} can be cut."
        )
    return KINDS[kind](model)
