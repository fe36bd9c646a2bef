"""The files by which sentence-transformers knows how a model's vectors are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from compress.capture import Pooling
from edgebert.errors import ModelError
from edgebert.files import write_json

MODULES_NAME = "modules.json"
_MODES: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}


@dataclass(frozen=True, kw_only=True)
class SentenceLayout:
    """How a checkpoint says that its vectors are made.

    Attributes:
        pooling: ``mean``, ``cls`` or ``max``.
        normalize: Whether vectors get unit length.
        max_length: Longest input in tokens, or None where it doesn't say.
        prompts: Text before an input, by role (``query``, ``document``).
    """

    pooling: Pooling
    normalize: bool
    max_length: int | None = None
    prompts: dict[str, str] = field(default_factory=dict)


def read_layout(directory: Path, pooling: Pooling | None = None) -> SentenceLayout | None:
    """Read how a checkpoint's vectors are made; None where it has no ``modules.json``.

    Args:
        directory: Of the checkpoint.
        pooling: What the user chose, which wins; the checkpoint's own isn't read then.

    Raises:
        ModelError: It has a module that a bundle can't hold, such as a Dense layer, or a pooling
            that we don't know and none was chosen.
    """
    if not (directory / MODULES_NAME).is_file():
        return None
    modules = _read(directory / MODULES_NAME)
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ModelError(
            f"{directory} makes its vectors by {', '.join(kinds)}; a bundle can hold Transformer, "
            "Pooling and Normalize. Distill it into a student instead, which needs no more."
        )
    limits = _read(directory / "sentence_bert_config.json", default={})
    settings = _read(directory / "config_sentence_transformers.json", default={})
    prompts = settings.get("prompts") or {}
    return SentenceLayout(
        pooling=pooling or _pooling(directory / modules[1]["path"] / "config.json"),
        normalize=kinds[-1] == "Normalize",
        max_length=limits.get("max_seq_length"),
        prompts={r: str(prompts[r]) for r in ("query", "document") if prompts.get(r)},
    )


def _pooling(path: Path) -> Pooling:
    settings = _read(path)
    mode = settings.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else list(mode or ())
    modes += [name for name, value in settings.items() if "pooling_mode_" in name and value is True]
    if len(modes) == 1:
        found = _MODES.get(modes[0], modes[0])
        for pooling in get_args(Pooling):
            if found == pooling:
                known: Pooling = pooling
                return known
    raise ModelError(
        f"{path} pools by {modes}; a bundle can pool by {', '.join(get_args(Pooling))}. Give "
        "--pooling if one of them is meant."
    )


def write_layout(directory: Path, layout: SentenceLayout, *, hidden_size: int) -> None:
    """Write the files, in the form that every release of sentence-transformers reads."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if layout.normalize:
        kinds.append(("2_Normalize", "Normalize"))
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (path, kind) in enumerate(kinds)
    ]
    write_json(directory / MODULES_NAME, modules)
    (directory / "1_Pooling").mkdir()
    modes = {name: pooling == layout.pooling for name, pooling in _MODES.items()}
    pooling = {"word_embedding_dimension": hidden_size, **modes}
    write_json(directory / "1_Pooling" / "config.json", pooling)
    limits = {"max_seq_length": layout.max_length, "do_lower_case": False}
    write_json(directory / "sentence_bert_config.json", limits)
    settings = {"prompts": layout.prompts, "similarity_fn_name": "cosine"}
    write_json(directory / "config_sentence_transformers.json", settings)


def _read(path: Path, *, default: Any = None) -> Any:
    if default is not None and not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} can't be read as JSON ({error}).") from error
