"""What an export needs: the model, and texts to calibrate and gate it on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compress.data import Split, TaskData, load_data, make_split
from compress.loading import LoadedModel, load_teacher
from compress.model_files import read_config
from edgebert.errors import ModelError
from edgebert.manifest import MANIFEST_NAME, Manifest

if TYPE_CHECKING:
    from compress.export import ExportConfig

logger = logging.getLogger(__name__)


def load_inputs(config: ExportConfig, path: Path) -> tuple[TaskData, LoadedModel]:
    """Load the data and the model, its logits in the order of the data's labels.

    Raises:
        ModelError: The model has no head for the task, or its labels don't fit the data's.
        DataError: The data can't be used.
    """
    names = tuple(config.teacher_labels.split(",")) if config.teacher_labels else ()
    data = load_data(config, task=config.task, seed=config.seed)
    given = config.train_file is not None or config.dataset is not None
    if config.task == "text-classification" and not given:
        own = names or tuple((read_config(path).get("id2label") or {}).values())
        if sorted(map(str.casefold, own)) != sorted(map(str.casefold, data.labels)):
            data = _embedded_texts(config, path)
    loaded = load_teacher(
        path,
        task=config.task,
        labels=data.labels,
        problem_type=data.problem_type,
        teacher_labels=names,
    )
    if not loaded.has_head:
        raise ModelError(
            f"{path} has no head for {config.task}; train one first: "
            f"python -m compress.train --model {config.model} …"
        )
    return data, loaded


def _embedded_texts(config: ExportConfig, path: Path) -> TaskData:
    """Take the embedded texts without labels for a classifier of others, as pairs if it says so."""
    logger.warning(
        "No data given: INT8 is held against the model's own FP32 predictions on the "
        "embedded texts. Give --train-file and --dev-file of its task for a real score."
    )
    data = load_data(config, task="feature-extraction", seed=config.seed)
    if not (path / MANIFEST_NAME).is_file():
        logger.warning(
            "The bundle will take single texts. If the model was trained on pairs, give "
            "--train-file with --text-column and --text-pair-column."
        )
    elif Manifest.load(path).pairs:
        return _in_pairs(data)
    return data


def _in_pairs(data: TaskData) -> TaskData:
    """Put the texts of unlabelled data together, two by two: to try a model that takes pairs."""

    def pair(split: Split) -> Split:
        half = len(split) // 2
        seconds = split.texts[half : 2 * half]
        return make_split(split.name, split.source, split.texts[:half], text_pairs=seconds)

    test = pair(data.test) if data.test is not None else None
    return replace(data, train=pair(data.train), dev=pair(data.dev), test=test)
