"""A transformers model's files, written in silence and readable by everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from compress.loading import no_progress_bar
from edgebert.errors import EdgeBertError


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
