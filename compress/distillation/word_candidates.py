"""Which words could stand in the place of another: a masked language model says, or likeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from compress.data.augment import is_word
from compress.data.encoding import EncodedTexts, TokenArray, collate
from compress.models.capture import Wanted, forward_features
from compress.training.optimization import native_bf16
from compress.training.target_terms import logits_of
from edgebert.engines.batching import plan_batches
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from edgebert.text.tokenizer import Encoding, Tokenizer

_MOST_LOGITS = 1 << 25  # 134 MB of float32 a batch
_CHUNK_TOKENS = 4096


class WordCandidates:
    """Proposes words out of a model's vocabulary.

    TinyBERT takes neighbours among GloVe's vectors. Here they are neighbours among the model's own
    input embeddings, by cosine; a word of several pieces has their mean.

    Args:
        model: In eval mode, on its device, with a masked-language-model head where ``masked``.
        tokenizer: The model's.
        masked: Whether the model itself proposes for a word of one piece.
        top_k: Candidates a word.
        bf16: Whether the model may compute in bfloat16.

    Raises:
        ModelError: No token of the vocabulary is a whole word.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        masked: bool,
        top_k: int,
        bf16: bool = False,
    ) -> None:
        self._model, self._tokenizer, self._masked = model, tokenizer, masked
        self._table = _table(model)  # [vocabulary, E]
        ids, self._texts = whole_words(tokenizer, len(self._table))
        self._ids = torch.tensor(ids, device=self._table.device)  # [W]
        self._places = {token: place for place, token in enumerate(ids)}
        self._vectors = F.normalize(self._table[self._ids], dim=-1)  # [W, E]
        self._top_k = min(top_k, len(ids) - 1)
        self._bf16 = bf16 and native_bf16(self._table.device)
        self._known: dict[tuple[int, ...], list[str]] = {}

    def propose(self, words: Sequence[tuple[Encoding, tuple[int, ...]]]) -> list[list[str]]:
        """Name candidates for words, none of them the word itself.

        Args:
            words: The encoding of a row, and the places of one word's tokens in it.
        """
        found: list[list[str]] = [[] for _ in words]
        single = [i for i, (_, tokens) in enumerate(words) if self._masked and len(tokens) == 1]
        filled = self._fill([(words[i][0], words[i][1][0]) for i in single])
        for i, candidates in zip(single, filled, strict=True):
            found[i] = candidates
        for i in set(range(len(words))).difference(single):
            encoding, tokens = words[i]
            found[i] = self.neighbours(tuple(encoding.input_ids[list(tokens)].tolist()))
        return found

    def neighbours(self, pieces: tuple[int, ...]) -> list[str]:
        """Name the words whose input embeddings are most like a word's.

        Args:
            pieces: Ids of the word's tokens.
        """
        if pieces not in self._known:
            vector = F.normalize(self._table[list(pieces)].mean(dim=0), dim=-1)  # [E]
            own = self._places.get(pieces[0]) if len(pieces) == 1 else None
            self._known[pieces] = self._best(self._vectors @ vector, own)
        return self._known[pieces]

    def _fill(self, masked: list[tuple[Encoding, int]]) -> list[list[str]]:
        """Ask the model what could stand at a place that it doesn't see."""
        rows = _masked_rows(masked, int(self._tokenizer.mask_id or 0))
        found: list[list[str]] = [[] for _ in masked]
        budget = max(1, _MOST_LOGITS // len(self._table))
        for batch in plan_batches(rows.lengths.tolist(), max_tokens=budget):
            logits = self._logits(rows, batch)  # [B, S, vocabulary]
            for at, row in enumerate(batch):
                encoding, place = masked[row]
                own = self._places.get(int(encoding.input_ids[place]))
                found[row] = self._best(logits[at, place, self._ids].float(), own)
        return found

    def _logits(self, rows: EncodedTexts, batch: list[int]) -> Tensor:
        device = self._table.device
        inputs = collate(rows, np.asarray(batch), pad_id=self._tokenizer.pad_id, device=device)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=self._bf16):
            return logits_of(forward_features(self._model, inputs, Wanted()))

    def _best(self, scores: Tensor, own: int | None) -> list[str]:
        if own is not None:
            scores[own] = -torch.inf  # [W], the caller's to change
        return [self._texts[place] for place in scores.topk(self._top_k).indices.tolist()]


def _masked_rows(masked: list[tuple[Encoding, int]], mask_id: int) -> EncodedTexts:
    ids: list[TokenArray] = []
    for encoding, place in masked:
        row = encoding.input_ids.astype(np.int32)
        row[place] = mask_id
        ids.append(row)
    types = [encoding.token_type_ids.astype(np.int32) for encoding, _ in masked]
    return EncodedTexts(ids, types, sha256="")


def whole_words(tokenizer: Tokenizer, vocab_size: int) -> tuple[list[int], list[str]]:
    """Find the tokens that are words by themselves: within a text they are one token alone.

    Args:
        tokenizer: Of any kind.
        vocab_size: Ids from it on have no embedding.

    Returns:
        Their ids, rising, and their texts.

    Raises:
        ModelError: There are fewer than two.
    """
    ids, texts = [], []
    known = [int(token) for token in tokenizer.ids if token < vocab_size]
    for start in range(0, len(known), _CHUNK_TOKENS):
        named = [
            (token, tokenizer.text_of(token)) for token in known[start : start + _CHUNK_TOKENS]
        ]
        named = [(token, text) for token, text in named if is_word(text)]
        encodings = tokenizer.encode([f" {text}" for _, text in named], max_length=None)
        for (token, text), encoding in zip(named, encodings, strict=True):
            if encoding.input_ids[encoding.text_ids == 0].tolist() == [token]:
                ids.append(token)
                texts.append(text)
    if len(ids) < 2:
        raise ModelError(
            f"Of {len(known)} tokens {len(ids)} are words by themselves, so none can take "
            "another's place; give an --augment-model with words in its vocabulary."
        )
    return ids, texts


def _table(model: PreTrainedModel) -> Tensor:
    """Give a model's input embeddings, float32 ``[vocabulary, E]``."""
    embeddings: Any = model.get_input_embeddings()  # typed as any module
    weight: Tensor = embeddings.weight
    return weight.detach().float()
