"""A transformers model's files, written in silence and readable by everybody."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from compress.models.pretrained import no_progress_bar
from edgebert.errors import EdgeBertError

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
)


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy those of a tokenizer's files that a checkpoint has from one directory to another."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def save_model(model: Any, directory: Path) -> None:
    """Write ``config.json`` and ``model.safetensors``.

    Args:
        model: A transformers model.
        directory: Is there.

    Raises:
        EdgeBertError: The weights can't be written; the library hides the system's error.
    """
    try:
        with no_progress_bar():
            model.save_pretrained(directory)
    except SafetensorError as error:
        raise EdgeBertError(
            f"Can't write the weights into {directory} ({error}). Make room there and run it "
            "again, a training with --resume."
        ) from error
    for weights in directory.glob("*.safetensors"):  # written for the owner's eyes only
        weights.chmod((directory / "config.json").stat().st_mode)
