"""The model and data hub: one quick question whether it answers, and quiet work without it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

HUB_TIMEOUT_S = 5.0


def fetch(
    repo_id: str,
    *,
    patterns: Sequence[str],
    repo_type: Literal["model", "dataset"] = "model",
    cached_only: bool = False,
) -> Path:
    """Give the local folder of a repository of the hub, downloading what is not cached.

    Without a network this fails within seconds. ``HF_HUB_OFFLINE`` is respected.

    Args:
        repo_id: As ``owner/name``.
        patterns: Files to take, as globs.
        repo_type: What the repository holds.
        cached_only: Look into the local cache alone.

    Raises:
        OSError: Not cached, no network, or the hub has no such repository.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        with quiet("huggingface_hub"):
            folder = snapshot_download(
                repo_id,
                repo_type=repo_type,
                allow_patterns=list(patterns),
                local_files_only=cached_only,
                etag_timeout=HUB_TIMEOUT_S,
            )
    except HFValidationError as error:
        raise FileNotFoundError(f"{repo_id!r} is no name of a repository") from error
    return Path(folder)


@contextmanager
def offline() -> Iterator[None]:
    """Keep ``huggingface_hub`` and ``datasets`` to their caches while the block runs."""
    import datasets  # type: ignore[import-untyped]
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Keep other packages' logs below errors out of the output while the block runs."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)


def one_line(error: BaseException) -> str:
    """Give the first line of an error of another package, short enough for ours."""
    text = " ".join(str(error).split("\n", maxsplit=1)[0].split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
