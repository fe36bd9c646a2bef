"""Data sets of the hub, or of its cache, through the ``datasets`` library."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from compress.data.files import BadRows, Table
from compress.models import hub
from edgebert.errors import DataError

logger = logging.getLogger(__name__)

# Names that people write without an owner, and where they live now.
OWNERS = {
    "glue": "nyu-mll/glue",
    "super_glue": "aps/super_glue",
    "tweet_eval": "cardiffnlp/tweet_eval",
    "xnli": "facebook/xnli",
    "paws-x": "google-research-datasets/paws-x",
    "clue": "clue/clue",
}
SPLIT_NAMES = {
    "train": ("train",),
    "dev": ("validation", "dev", "validation_matched"),
    "test": ("test", "test_matched"),
}


def read_hub_dataset(name: str) -> dict[str, Table]:
    """Read a data set's train, dev and test as far as it has them.

    A class label becomes its name. A test split without labels (all of them -1, as in GLUE) is
    dropped, which is logged.

    Args:
        name: ``glue/sst2``, ``owner/name``, ``owner/name/config``, or a local directory.

    Raises:
        DataError: It is neither cached nor to be had from the hub, or has no train split.
    """
    path, config = parse_name(name)
    loaded = _load(name, path, config)
    tables = {}
    for split, candidates in SPLIT_NAMES.items():
        found = next((candidate for candidate in candidates if candidate in loaded), None)
        if found is None:
            continue
        table = _table(loaded[found], f"{name} {found}")
        if split == "test" and _is_unlabelled(loaded[found]):
            logger.warning("%s has no labels (all are -1), so it is not used.", table.source)
            continue
        tables[split] = table
    if "train" not in tables:
        raise DataError(f"Data set {name!r} has no train split; it has {', '.join(loaded)}.")
    return tables


def parse_name(name: str) -> tuple[str, str | None]:
    """Split a data set's name into the hub's path and its configuration."""
    if Path(name).is_dir():
        return name, None
    first, _, rest = name.partition("/")
    if first in OWNERS:
        return OWNERS[first], rest or None
    owner, _, rest = name.partition("/")
    repository, _, config = rest.partition("/")
    return (f"{owner}/{repository}" if repository else owner), config or None


def _load(name: str, path: str, config: str | None) -> Any:  # a datasets.DatasetDict, untyped
    try:
        import datasets  # type: ignore[import-untyped]
    except ImportError as error:
        raise DataError(
            "--dataset needs the package datasets. "
            "Install it with: pip install 'edgebert[compress]'"
        ) from error
    if Path(path).is_dir():
        return _as_dict(datasets.load_dataset, name, path, config)
    try:
        hub.fetch(path, patterns=["README.md"], repo_type="dataset")
    except OSError as error:
        logger.info("The hub doesn't give %s (%s); looking in the cache.", path, error)
        with hub.offline(), hub.quiet("datasets"):
            return _as_dict(datasets.load_dataset, name, path, config)
    return _as_dict(datasets.load_dataset, name, path, config)


def _as_dict(load: Any, name: str, path: str, config: str | None) -> Any:
    try:
        loaded = load(path, config)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise DataError(
            f"Data set {name!r} can't be had: {hub.one_line(error)}. Check its name (as glue/sst2 "
            "or owner/name/config) and the network, or give --train-file."
        ) from error
    return loaded


def _table(split: Any, source: str) -> Table:
    columns: dict[str, list[Any]] = {}
    for name, feature in split.features.items():
        cells = list(split[name])
        inner = getattr(feature, "feature", feature)  # of a list of labels, the label
        if hasattr(inner, "int2str"):
            cells = [_names_of(inner, cell) for cell in cells]
        columns[name] = cells
    return Table(columns, list(range(1, len(split) + 1)), BadRows(source, unit="row"))


def _names_of(feature: Any, cell: Any) -> Any:
    if isinstance(cell, list):
        return [feature.int2str(item) for item in cell]
    return None if cell is None or cell < 0 else feature.int2str(cell)


def _is_unlabelled(split: Any) -> bool:
    if "label" not in split.features or not len(split):
        return False
    return all(cell is None or cell == -1 for cell in split["label"])
