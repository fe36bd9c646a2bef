"""What a Hugging Face model directory says of itself, in ``config.json`` and beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from edgebert.errors import DamagedBundleError
from edgebert.formats.positions import max_positions
from edgebert.formats.strict_json import MAX_BYTES

_SPECIALS = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
_HIDDEN_SIZES = ("hidden_size", "dim", "d_model")  # the second is DistilBERT's, the third BART's
_NO_LIMIT = 1_000_000  # transformers writes 1e30 where it knows none


def read_value(path: Path) -> Any:
    """Read a JSON file of a library that writes numbers as large as it likes.

    Raises:
        DamagedBundleError: The file is missing, is too large, or is no JSON.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedBundleError(f"{path} can't be read as JSON ({error}).") from error


def read_object(path: Path, *, missing_ok: bool = False) -> dict[str, Any]:
    """Read a JSON file that holds an object; an empty one where there is no file.

    Raises:
        DamagedBundleError: As `read_value`, or the file holds something else.
    """
    if missing_ok and not path.is_file():
        return {}
    found = read_value(path)
    if not isinstance(found, dict):
        raise DamagedBundleError(f"{path} holds no JSON object; make it again.")
    return found


def special_token_ids(directory: Path, config: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Read the ids of the special tokens by name, as ``pad_token_id``.

    Args:
        directory: With ``tokenizer.json`` and what says which token is which.
        config: The model's, asked for the padding when those files don't say.

    Raises:
        DamagedBundleError: A file is missing or damaged, or no padding token is known.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise DamagedBundleError(
            f"{path} is missing; load the model's tokenizer in transformers and save it there "
            "with save_pretrained."
        )
    try:
        fast = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower type
        raise DamagedBundleError(f"{path} is damaged ({error}).") from error
    names: dict[str, Any] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        names.update(read_object(directory / file, missing_ok=True))
    ids = {}
    for special in _SPECIALS:
        name = names.get(f"{special}_token")
        name = name.get("content") if isinstance(name, dict) else name
        token_id = fast.token_to_id(name) if isinstance(name, str) else None
        if token_id is not None:
            ids[f"{special}_token_id"] = token_id
    if "pad_token_id" not in ids:
        padding = (config or {}).get("pad_token_id")
        if not isinstance(padding, int):
            raise DamagedBundleError(f"{directory} names no padding token (pad_token).")
        ids["pad_token_id"] = padding
    return ids


def longest_input(directory: Path, config: Mapping[str, Any], *, most: int | None = None) -> int:
    """Count the tokens of the longest input: the least of all limits that the files name.

    Args:
        directory: With ``tokenizer_config.json``.
        config: The model's.
        most: Another limit that is known.

    Raises:
        DamagedBundleError: No file names a limit.
    """
    own = read_object(directory / "tokenizer_config.json", missing_ok=True).get("model_max_length")
    limits = [most, max_positions(config), own]
    known = [int(n) for n in limits if isinstance(n, int | float) and 0 < n < _NO_LIMIT]
    if not known:
        raise DamagedBundleError(
            f"{directory} doesn't say how long an input may be; write the number of tokens into "
            'tokenizer_config.json as "model_max_length".'
        )
    return min(known)


def hidden_size(config: Mapping[str, Any]) -> int | None:
    """Give the width of the last hidden state, or None where the configuration doesn't say."""
    sizes = (config.get(name) for name in _HIDDEN_SIZES)
    return next((size for size in sizes if isinstance(size, int)), None)


def label_names(config: Mapping[str, Any], count: int | None) -> tuple[str, ...]:
    """Name the labels in the order of the logits.

    Args:
        config: The model's; where it names none they are ``LABEL_0`` and so on, as transformers
            calls them.
        count: How many logits there are, where that's known; else two, which is what
            transformers makes of a configuration that names none.

    Raises:
        DamagedBundleError: It has names for other logits.
    """
    names = config.get("id2label")
    if not isinstance(names, dict) or not names:
        return tuple(f"LABEL_{i}" for i in range(count or 2))
    try:
        by_logit = {int(logit): str(name) for logit, name in names.items()}
    except ValueError as error:
        raise DamagedBundleError(
            f"id2label in config.json has a key that's no number: {error}."
        ) from error
    if sorted(by_logit) != list(range(len(by_logit))) or count not in (None, len(by_logit)):
        raise DamagedBundleError(
            f"id2label in config.json names the logits {sorted(by_logit)[:8]}, but the model has "
            f"{count if count is not None else len(by_logit)}; name each, from 0."
        )
    return tuple(by_logit[logit] for logit in range(len(by_logit)))
