"""Which steps made a model, from the first teacher on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compress.bundles.versions import split_records, versions
from compress.data.task_data import TaskData
from compress.options import RUN_NAME, config_to_dict
from edgebert.errors import ModelError
from edgebert.files import sha256_file, write_json
from edgebert.formats.manifest import MANIFEST_NAME, Manifest

LINEAGE_NAME = "lineage.json"
_WEIGHTS = ("*.safetensors", "*.bin")


def lineage_entry(
    step: str, config: Mapping[str, Any], data: TaskData | None = None, **facts: Any
) -> dict[str, Any]:
    """Make a step's entry of the lineage: config, seed, data hashes, versions.

    Args:
        step: Its name, like ``export``.
        config: Its settings as JSON can hold them.
        data: What it used.
        facts: What else is worth knowing, such as ``model``; ``baseline`` is a `model_place`: what
            reports of later steps compare with.
    """
    splits = split_records(data) if data is not None else {}
    return {
        "step": step,
        **facts,
        "config": dict(config),
        "seed": config.get("seed"),
        "data": {name: record.sha256 for name, record in splits.items()},
        "versions": versions(),
    }


def model_place(directory: Path) -> dict[str, str]:
    """Say where a model is and which weights it has, so that it is known again later."""
    return {"directory": str(directory.absolute()), "weights_sha256": weights_hash(directory)}


def weights_hash(directory: Path) -> str:
    """Hash a checkpoint's files of weights; "" where there are none."""
    files = sorted(path for form in _WEIGHTS for path in directory.glob(form))
    hashes = [sha256_file(path) for path in files]
    return hashes[0] if len(hashes) == 1 else " ".join(hashes)


def earlier_steps(path: Path) -> tuple[dict[str, Any], ...]:
    """Give the lineage that a model brings along.

    Args:
        path: A bundle, whose manifest has it; a checkpoint of a step, with ``lineage.json``, or
            with a ``run.json`` alone, which is one entry; or any other, which has none.

    Raises:
        ModelError: One of these can't be read.
    """
    if (path / MANIFEST_NAME).is_file():
        return Manifest.load(path).lineage
    for name in (LINEAGE_NAME, RUN_NAME):
        if (path / name).is_file():
            found = _read(path / name)
            return found if name == LINEAGE_NAME else (_run_entry(found[0]),)
    return ()


def save_lineage(
    directory: Path, source: Path, config: Any, data: TaskData | None = None, **facts: Any
) -> None:
    """Write ``lineage.json`` of a checkpoint: the steps of the model that was given, and this one.

    Args:
        directory: Where the checkpoint is being written.
        source: The model that was given.
        config: The step's settings.
        data: What it used.
        facts: See `lineage_entry`.
    """
    step = type(config).__name__.removesuffix("Config").lower()
    entry = lineage_entry(step, config_to_dict(config), data, **facts)
    write_json(directory / LINEAGE_NAME, [*earlier_steps(source), entry])


def _read(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return tuple(dict(one) for one in ([found] if path.name == RUN_NAME else found))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{path} can't be read ({error}); remove it.") from error


def _run_entry(config: dict[str, Any]) -> dict[str, Any]:
    step = str(config.pop("step", "train")).removesuffix("Config").lower()
    return {"step": step, "config": config, "seed": config.get("seed")}
