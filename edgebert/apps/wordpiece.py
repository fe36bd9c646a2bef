"""A bundle's tokenizer as settings for a WordPiece in plain code, or refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from edgebert.errors import InputError
from edgebert.formats.manifest import TOKENIZER_NAME

NORMALIZER = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
Template = list[dict[str, int]]


@dataclass(frozen=True, kw_only=True)
class WordPieceFiles:
    """What plain code needs to make the same ids.

    Attributes:
        vocab: ``vocab.txt``: a token a line, in the order of their ids.
        normalizer: Settings of BERT's, see `edgebert.apps.characters.character_table`.
        settings: ``unk_id``, ``prefix``, ``max_chars`` (a longer word is unknown), and what is put
            together for a text and for a pair: ``single`` and ``pair``, each a list of
            ``{"id", "type"}``, a special token, and ``{"text", "type"}``, text 0 or 1.
    """

    vocab: str
    normalizer: dict[str, bool | None]
    settings: dict[str, Any]


def read_wordpiece(bundle: Path) -> WordPieceFiles:
    """Read ``tokenizer.json`` of a bundle whose files were checked.

    Raises:
        InputError: It is no WordPiece as BERT has it; what it is is named.
    """
    path = bundle / TOKENIZER_NAME
    data = json.loads(path.read_text(encoding="utf-8"))
    _require(path, "model", data["model"].get("type", "WordPiece"), "WordPiece")
    for part, kind in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        _require(path, part, (data.get(part) or {}).get("type"), kind)
    plain = [token["content"] for token in data["added_tokens"] if not token["special"]]
    if plain:
        raise _refused(path, f"adds tokens that aren't special ({', '.join(plain[:5])})")
    model = data["model"]
    unknown = model["vocab"].get(model["unk_token"])
    if unknown is None:
        raise _refused(path, f"lacks its unknown token {model['unk_token']!r}")
    library = tokenizers.Tokenizer.from_file(str(path))
    return WordPieceFiles(
        vocab=_lines(path, model["vocab"]),
        normalizer={name: data["normalizer"].get(name) for name in NORMALIZER},
        settings={
            "unk_id": unknown,
            "prefix": model["continuing_subword_prefix"],
            "max_chars": model["max_input_chars_per_word"],
            "single": _template(path, library, pair=False),
            "pair": _template(path, library, pair=True),
        },
    )


def _template(path: Path, library: tokenizers.Tokenizer, *, pair: bool) -> Template:
    """See what the post-processor puts around two texts of one token each."""
    library.no_padding()
    library.no_truncation()
    encoded = library.encode("a", "a") if pair else library.encode("a")
    found: Template = []
    for token, kind, text in zip(encoded.ids, encoded.type_ids, encoded.sequence_ids, strict=True):
        found.append({"id": token, "type": kind} if text is None else {"text": text, "type": kind})
    if [item["text"] for item in found if "text" in item] != ([0, 1] if pair else [0]):
        raise _refused(path, "doesn't put texts one after the other")
    return found


def _lines(path: Path, vocabulary: dict[str, int]) -> str:
    by_id = {number: token for token, number in vocabulary.items()}
    missing = next((number for number in range(len(by_id)) if number not in by_id), None)
    if missing is not None:
        raise _refused(path, f"has no token with the id {missing}, so a list can't hold it")
    if any("\n" in token for token in vocabulary):
        raise _refused(path, "has a token with a line break")
    return "".join(f"{by_id[number]}\n" for number in range(len(by_id)))


def _require(path: Path, part: str, found: object, kind: str) -> None:
    if found != kind:
        raise _refused(path, f"has a {part} of the kind {found or 'none'}, not {kind}")


def _refused(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path} {reason}; the sample code can only do WordPiece as BERT has it. Use the "
        "tokenizer's own library in the app, or a student with a BERT vocabulary."
    )
