"""What a cut vocabulary costs: unknowns and lengths on texts that it was not chosen by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compress.reporting import format as show
from compress.trimming.choosing import encodings
from compress.trimming.tokenizer_files import TokenizerFiles

_LENGTHS = {
    "tokens_per_word": "tokens a word",
    "tokens_per_character": "tokens a character",
    "ids_per_text": "ids a text",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How a tokenizer splits some texts.

    Attributes:
        unknown_rate: Part of the tokens that are unknown, special tokens left out.
        tokens_per_word: Of words between white space, special tokens left out.
        tokens_per_character: The same for characters.
        ids_per_text: With special tokens.
    """

    unknown_rate: float
    tokens_per_word: float
    tokens_per_character: float
    ids_per_text: float


@dataclass(frozen=True, kw_only=True)
class Side:
    """A model before it was cut, or after.

    Attributes:
        vocab_size: Rows of its embeddings.
        params: Number of its parameters.
        size_bytes: Of its weights on disk.
        measured: How its tokenizer splits the texts that were held out.
    """

    vocab_size: int
    params: int
    size_bytes: int
    measured: Measured


@dataclass(frozen=True, kw_only=True)
class TrimResult:
    """What ``trim.json`` holds.

    Attributes:
        model: What was taken, a directory or a hub id.
        kind: ``WordPiece``, ``BPE`` or ``Unigram``.
        corpus_texts: How many texts the pieces were counted in.
        measured_texts: How many texts were measured.
        held_out: Whether these are others than those that the pieces were counted in.
        unchanged: Part of the measured texts that are split as before.
        before: The model that was taken.
        after: The model that was made of it.
    """

    model: str
    kind: str
    corpus_texts: int
    measured_texts: int
    held_out: bool
    unchanged: float
    before: Side
    after: Side


def split_texts(files: TokenizerFiles, texts: Sequence[str]) -> list[list[int]]:
    """Give the ids of each text, special tokens left out."""
    return [encoding.ids for _, encoding in encodings(files.plain, texts)]


def measure(
    files: TokenizerFiles, texts: Sequence[str], splits: Sequence[Sequence[int]]
) -> Measured:
    """Measure how a tokenizer splits texts.

    Args:
        files: The tokenizer.
        texts: None of them empty.
        splits: Their ids, of `split_texts`.
    """
    tokens = sum(map(len, splits))
    unknown = sum(ids.count(files.vocabulary.unknown_id) for ids in splits)
    return Measured(
        unknown_rate=unknown / max(tokens, 1),
        tokens_per_word=tokens / sum(len(text.split()) for text in texts),
        tokens_per_character=tokens / sum(map(len, texts)),
        ids_per_text=tokens / len(texts) + files.plain.num_special_tokens_to_add(False),
    )


def count_unchanged(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], new_ids: Mapping[int, int]
) -> int:
    """Count the texts that are split into the same pieces.

    Args:
        before: Old ids of each text.
        after: New ids of each text.
        new_ids: By old id.
    """
    pairs = zip(before, after, strict=True)
    return sum([new_ids.get(i) for i in old] == list(new) for old, new in pairs)


def format_result(result: TrimResult) -> str:
    """Write a result as a table for a terminal, in plain ASCII."""
    before, after = result.before, result.after
    rows = [("", "before", "after")]
    rows.append(("tokens", show.count(before.vocab_size), show.count(after.vocab_size)))
    rows.append(("parameters", show.params(before.params), show.params(after.params)))
    rows.append(("weights", show.megabytes(before.size_bytes), show.megabytes(after.size_bytes)))
    old, new = before.measured.unknown_rate, after.measured.unknown_rate
    rows.append(("unknown tokens", f"{100 * old:.3f} %", f"{100 * new:.3f} %"))
    for name, label in _LENGTHS.items():
        old, new = (getattr(side.measured, name) for side in (before, after))
        rows.append((label, f"{old:.3f}", f"{new:.3f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2])])
        for row in rows
    ]
    where = "held out" if result.held_out else "of the corpus itself"
    lines.append(
        f"{show.percent(result.unchanged)} of {show.count(result.measured_texts)} texts {where} "
        "are split as before"
    )
    return "\n".join(lines)
