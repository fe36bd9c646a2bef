"""What an export needs: the model, and texts to calibrate and gate it on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compress.data.load import PLAIN_TASKS, TaskData, load_data
from compress.data.made_inputs import INPUTS, as_pairs
from compress.models.files import read_config
from compress.models.loading import LoadedModel, load_teacher
from edgebert.errors import ModelError
from edgebert.formats.manifest import MANIFEST_NAME, Manifest

if TYPE_CHECKING:
    from compress.export import ExportConfig

logger = logging.getLogger(__name__)


def load_inputs(config: ExportConfig, path: Path) -> tuple[TaskData, LoadedModel]:
    """Load the data and the model, its logits in the order of the data's labels.

    Without data it is the embedded texts; for a model of other labels, or of another task than
    their classes, as inputs of that task without labels.

    Raises:
        ModelError: The model has no head for the task, or its labels don't fit the data's.
        DataError: The data can't be used.
    """
    names = tuple(config.teacher_labels.split(",")) if config.teacher_labels else ()
    given = config.train_file is not None or config.dataset is not None
    if given or config.task in PLAIN_TASKS:
        data = load_data(config, task=config.task, seed=config.seed)
    elif config.task == "text-classification":
        data = load_data(config, task=config.task, seed=config.seed)
        own = names or tuple((read_config(path).get("id2label") or {}).values())
        if sorted(map(str.casefold, own)) != sorted(map(str.casefold, data.labels)):
            data = _embedded_texts(config, path)
    else:
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
    """Make inputs of the task of the embedded texts, without labels."""
    logger.warning(
        "No data given: INT8 is held against the model's own FP32 predictions on the "
        "embedded texts. Give --train-file and --dev-file of its task for a real score."
    )
    data = load_data(config, task="feature-extraction", seed=config.seed)
    make = INPUTS.get(config.task)
    if make is None:
        make = as_pairs if _takes_pairs(path) else None
    if make is None:
        return data
    test = make(data.test) if data.test is not None else None
    return replace(data, train=make(data.train), dev=make(data.dev), test=test)


def _takes_pairs(path: Path) -> bool:
    """Whether a classifier or a regression takes pairs, as far as the model says."""
    if (path / MANIFEST_NAME).is_file():
        return bool(Manifest.load(path).pairs)
    logger.warning(
        "The bundle will take single texts. If the model was trained on pairs, give "
        "--train-file with --text-column and --text-pair-column."
    )
    return False
