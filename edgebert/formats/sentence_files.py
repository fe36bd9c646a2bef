"""The files by which sentence-transformers says how a model's vectors are made, without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from edgebert.errors import DamagedBundleError
from edgebert.formats.checkpoint_files import read_object, read_value
from edgebert.formats.manifest import POOLINGS

MODULES_NAME = "modules.json"
POOLING_SWITCHES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_IN_PYTHON = ("Transformer", "Pooling", "Normalize")  # what edgebert does behind a graph


@dataclass(frozen=True, kw_only=True)
class SentenceFiles:
    """What the files say.

    Attributes:
        kinds: The modules in their order, as ``Transformer``.
        pooling: One of `POOLINGS`, or None for another one.
        normalize: Whether vectors get unit length at the end.
        max_length: Longest input in tokens, or None where it doesn't say.
        prompts: Text before an input, by role (``query``, ``document``).
    """

    kinds: tuple[str, ...]
    pooling: str | None
    normalize: bool
    max_length: int | None = None
    prompts: dict[str, str] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether vectors follow from the last hidden state alone: pooled, then normalized."""
        return self.pooling is not None and all(kind in _IN_PYTHON for kind in self.kinds)


def read_sentence_files(directory: Path) -> SentenceFiles | None:
    """Read them; None where a directory has no ``modules.json``.

    Raises:
        DamagedBundleError: A file is damaged, or names a folder outside of the directory.
    """
    path = directory / MODULES_NAME
    if not path.is_file():
        return None
    modules = read_value(path)
    try:
        kinds = tuple(str(module["type"]).rpartition(".")[2] for module in modules)
        places = [str(module.get("path", "")) for module in modules]
    except (TypeError, KeyError, AttributeError) as error:
        raise DamagedBundleError(
            f"{path} is not what sentence-transformers writes ({error}); make it again."
        ) from error
    folders = dict(zip(kinds, places, strict=True))
    limits = read_object(directory / "sentence_bert_config.json", missing_ok=True)
    settings = read_object(directory / "config_sentence_transformers.json", missing_ok=True)
    prompts = settings.get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    longest = limits.get("max_seq_length")
    return SentenceFiles(
        kinds=kinds,
        pooling=_pooling(directory, folders["Pooling"]) if "Pooling" in folders else None,
        normalize=kinds[-1:] == ("Normalize",),
        max_length=longest if isinstance(longest, int) else None,
        prompts={role: str(prompts[role]) for role in ("query", "document") if prompts.get(role)},
    )


def _pooling(directory: Path, folder: str) -> str | None:
    place = PurePosixPath(folder)
    if place.is_absolute() or ".." in place.parts or "\\" in folder or ":" in folder:
        raise DamagedBundleError(f"{directory / MODULES_NAME} names {folder!r}, which leaves it.")
    settings = read_object(directory / folder / "config.json")
    modes = pooling_modes(settings)
    return modes[0] if len(modes) == 1 and modes[0] in POOLINGS else None


def pooling_modes(settings: dict[str, Any]) -> list[str]:
    """List the poolings that are on: a switch for each, or one name as newer releases write it.

    Args:
        settings: What a pooling's ``config.json`` holds.

    Returns:
        Names as a bundle has them, or the file's own for a pooling that a bundle can't have.
    """
    mode = settings.get("pooling_mode")
    named = [mode] if isinstance(mode, str) else list(map(str, mode or ()))
    named += [name for name, on in settings.items() if "pooling_mode_" in name and on is True]
    return [POOLING_SWITCHES.get(name, name) for name in named]
