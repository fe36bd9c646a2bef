"""The nouns that the runtime side passes around. Nothing of ours is imported here."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]

B = TypeVar("B", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Texts as an engine takes them, padded on the right to the longest.

    Attributes:
        input_ids: Token ids, int64 ``[batch, seq]``.
        attention_mask: 1 for a real token, 0 for padding, int64 ``[batch, seq]``.
        token_type_ids: 0 for the first text of a pair and 1 for the second, int64 ``[batch, seq]``.
        dropped_tokens: How many tokens of each text were cut off, int64 ``[batch]``.
    """

    input_ids: IntArray
    attention_mask: IntArray
    token_type_ids: IntArray
    dropped_tokens: IntArray

    def take(self: B, rows: IntArray, length: int) -> B:
        """Give some rows, in that order, cut to ``length`` tokens or padded to it, masked."""

        def cut(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = values[rows]
            if found.ndim == 1:
                return found
            found = found[:, :length]
            return np.pad(found, [(0, 0), (0, length - found.shape[1]), (0, 0)][: found.ndim])

        return replace(self, **{one.name: cut(getattr(self, one.name)) for one in fields(self)})


@dataclass(frozen=True)
class HiddenBatch(Batch):
    """Texts on their way through a model that is cut in segments.

    Attributes:
        hidden_states: What the segment before gave, float32 ``[batch, seq, hidden]``; where a text
            is padded, any finite numbers.
    """

    hidden_states: FloatArray


@dataclass(frozen=True)
class Classification:
    """What a classifier says of one text or pair.

    Attributes:
        label: The best label's name.
        score: Its probability, 0 to 1.
        scores: Probability of each label, best first; ``top_k`` of them when that was asked for.
        labels: Multi-label: every label at 0.5 or above, best first. Else the best label alone.
        dropped_tokens: How many tokens of the text were cut off.
        exit_layer: With early exit or fewer layers, the layer whose exit answered, from 1; of a
            text in windows the last of theirs. None where the whole model ran.
    """

    label: str
    score: float
    scores: dict[str, float]
    labels: tuple[str, ...]
    dropped_tokens: int
    exit_layer: int | None = None


@dataclass(frozen=True)
class Entity:
    """A stretch of a text with a label.

    Attributes:
        label: Like ``PER``; with ``aggregation="none"`` the token's tag, like ``B-PER``.
        score: Its probability, 0 to 1, put together as the aggregation says.
        start: First character, in the caller's text.
        end: Behind its last character.
        text: ``text[start:end]`` of the caller's text.
    """

    label: str
    score: float
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Tagging:
    """What a tagger says of one text.

    Attributes:
        entities: In the order of the text.
        dropped_tokens: How many tokens of the text were cut off.
    """

    entities: list[Entity]
    dropped_tokens: int


@dataclass(frozen=True)
class Answer:
    """A place in a context that answers a question.

    Attributes:
        text: ``context[start:end]``; ``""`` says that the context holds no answer.
        score: Its probability among all places that were looked at, 0 to 1.
        start: First character, in the caller's context.
        end: Behind its last character.
        no_answer_score: Probability that there is no answer, 0 to 1; None for a model that was
            not trained on questions without one.
        dropped_tokens: How many tokens of the context were cut off.
    """

    text: str
    score: float
    start: int
    end: int
    no_answer_score: float | None = None
    dropped_tokens: int = 0


@dataclass(frozen=True)
class Filling:
    """A token that a masked language model puts in the place of a mask.

    Attributes:
        token: As text, as it would stand there.
        token_id: Its id.
        score: Its probability, 0 to 1.
    """

    token: str
    token_id: int
    score: float


@dataclass(frozen=True)
class Choice:
    """Which of several texts fits a prompt best.

    Attributes:
        index: Of the best one, from 0.
        text: The best one.
        score: Its probability, 0 to 1.
        scores: Of every choice, in the caller's order.
        dropped_tokens: Of every choice together with the prompt: how many tokens were cut off.
    """

    index: int
    text: str
    score: float
    scores: tuple[float, ...]
    dropped_tokens: tuple[int, ...]


@dataclass(frozen=True)
class TokenVectors:
    """The vectors of one text's tokens, special tokens left out.

    Attributes:
        vectors: float32 ``[tokens, hidden]``.
        offsets: Start and end of each token, in characters of the caller's text.
        dropped_tokens: How many tokens of the text were cut off.
    """

    vectors: FloatArray
    offsets: list[tuple[int, int]]
    dropped_tokens: int


@dataclass(frozen=True)
class Ranked:
    """A document's place in the answer to a query.

    Attributes:
        index: Which of the caller's documents it is, from 0.
        score: Cosine of its vector with the query's, -1 to 1; of a ``regression`` bundle, which
            reads both texts together, the number that the model gives the pair.
        text: The document.
    """

    index: int
    score: float
    text: str


@dataclass(frozen=True)
class RuntimeInfo:
    """What a `edgebert.Runtime` has loaded, and why.

    Attributes:
        task: ``text-classification``, ``feature-extraction``, …
        backend: ``onnx``, …
        precision: ``fp32``, ``int8`` or ``int4``.
        labels: Names in the order of the logits; empty for a task without labels.
        max_length: Longest input in tokens, special tokens included.
        hidden_size: Width of the vectors.
        artifact: The file that runs, relative to the bundle.
        size_bytes: Of all files of the artifact.
        engine: Name and version of the engine.
        threads: Threads the engine may use.
        why: One sentence on how this artifact was chosen.
        num_hidden_layers: Most layers that a text goes through, where the model runs in segments;
            None where it runs whole.
        exit_threshold: Below this entropy a text leaves at an exit, see `edgebert.Runtime`; None
            without early exit.
    """

    task: str
    backend: str
    precision: str
    labels: tuple[str, ...]
    max_length: int
    hidden_size: int
    artifact: str
    size_bytes: int
    engine: str
    threads: int
    why: str
    num_hidden_layers: int | None = None
    exit_threshold: float | None = None
