"""What a result stands on: versions of packages, and hashes of data."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from contextlib import suppress

from compress.data.task_data import TaskData
from compress.reporting.records import SplitRecord
from edgebert import __version__

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "onnx",
    "onnxruntime",
    "openvino",
    "nncf",
    "litert-torch",
    "ai-edge-quantizer",
    "ai-edge-litert",
)


def versions() -> dict[str, str]:
    """Name the versions of the packages that may have a hand in a bundle and are installed."""
    found = {"edgebert": __version__}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def split_records(
    data: TaskData, measured: Mapping[str, int] | None = None
) -> dict[str, SplitRecord]:
    """Describe the splits as they were used.

    Args:
        data: The splits.
        measured: Rows that were scored, by split.
    """
    return {
        split.name: SplitRecord(
            rows=len(split),
            sha256=split.sha256,
            source=split.source,
            measured=(measured or {}).get(split.name),
        )
        for split in (data.train, data.augmented, data.dev, data.test)
        if split is not None
    }
