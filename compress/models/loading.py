"""A checkpoint's directory as a torch model and a tokenizer, loaded in silence and checked."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compress.models.files import check_checkpoint, check_max_length, read_config
from compress.models.hub import one_line
from compress.models.pretrained import (
    NAMED,
    load_encoder,
    load_headed,
    load_labelled,
    quiet_transformers,
)
from compress.settings import TASKS
from edgebert.errors import DamagedBundleError, InputError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from edgebert.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedModel:
    """A model with what is needed to use it.

    Attributes:
        model: fp32, in eval mode, on the CPU.
        has_head: Whether the checkpoint had the head of the task; else the head is random and is
            to be trained first. True for ``feature-extraction``, which needs none.
        tokenizer_dir: Directory with its ``tokenizer.json``.
        labels: Names in the order of the logits; empty for a task without labels.
    """

    model: PreTrainedModel
    has_head: bool
    tokenizer_dir: Path
    labels: tuple[str, ...]


def load_teacher(
    path: Path,
    *,
    task: str,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    teacher_labels: Sequence[str] = (),
    work_dir: Path | None = None,
) -> LoadedModel:
    """Load a checkpoint for a task.

    A head that is there gets its logits in the order of ``labels``, matched by name: classes of a
    text-classification, tags of a token-classification. A head that is missing, or is of another
    task, is initialised from torch's global generator; seed it before.

    Args:
        path: The directory.
        task: One of ``compress.settings.TASKS``.
        labels: The data's labels in order; without them the checkpoint's own are kept.
        problem_type: Of a text-classification.
        teacher_labels: Names of the checkpoint's logits in their order, where it has none.
        work_dir: Where a ``tokenizer.json`` goes when the checkpoint has none; by default a
            temporary directory.

    Raises:
        ModelError: The directory can't be used, or its labels don't fit the data's.
    """
    if task not in TASKS:
        raise InputError(f"Unknown task {task!r}; allowed: {', '.join(TASKS)}.")
    check_checkpoint(path)
    tokenizer_dir = prepare_tokenizer(path, work_dir=work_dir)
    names: tuple[str, ...] = ()
    with quiet_transformers():
        if task in NAMED:
            model, has_head, names = load_labelled(
                path, task, labels, problem_type=problem_type, teacher_labels=teacher_labels
            )
        elif task == "feature-extraction":
            model, has_head = load_encoder(path), True
        else:
            model, has_head = load_headed(path, task)
    model.train(mode=False)
    logger.debug("%s has %s head for %s.", path, "a" if has_head else "no", task)
    return LoadedModel(model, has_head, tokenizer_dir, names)


def has_tokenizer(path: Path) -> bool:
    """Whether a checkpoint has a ``tokenizer.json``, or a vocabulary that one can be made of."""
    patterns = ("tokenizer.json", "vocab.*", "*.model")
    return any(file.is_file() for pattern in patterns for file in path.glob(pattern))


def prepare_tokenizer(path: Path, *, work_dir: Path | None = None) -> Path:
    """Give a directory with the checkpoint's ``tokenizer.json``, made if it has none.

    Raises:
        ModelError: There are no tokenizer files, or they can't be converted.
    """
    if (path / "tokenizer.json").is_file():
        return path
    from transformers import AutoTokenizer

    if work_dir is None:
        work_dir = Path(tempfile.mkdtemp(prefix="edgebert-tokenizer-"))
        atexit.register(shutil.rmtree, work_dir, ignore_errors=True)
    if not has_tokenizer(path):
        raise ModelError(
            f"{path} has no tokenizer: neither tokenizer.json nor a vocabulary. Copy the "
            "tokenizer's files of the model it comes from."
        )
    try:
        with quiet_transformers():
            AutoTokenizer.from_pretrained(path, local_files_only=True).save_pretrained(work_dir)
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"The tokenizer of {path} can't be read ({one_line(error)}).") from error
    if not (work_dir / "tokenizer.json").is_file():
        raise ModelError(f"The tokenizer of {path} has no fast form, which edgebert needs.")
    return work_dir


def load_tokenizer(path: Path, max_length: int, *, work_dir: Path | None = None) -> Tokenizer:
    """Open a checkpoint's tokenizer, after checking that the model has room for its output.

    Args:
        path: The checkpoint.
        max_length: Longest input that is going to be made, special tokens included.
        work_dir: See `load_teacher`.

    Raises:
        InputError: ``max_length`` is above the model's positions.
        ModelError: There is no usable tokenizer.
    """
    from edgebert.text.tokenizer import Tokenizer

    check_max_length(path, max_length)
    directory = prepare_tokenizer(path, work_dir=work_dir)
    return Tokenizer(directory, special_ids=special_token_ids(directory, path))


def special_token_ids(tokenizer_dir: Path, path: Path | None = None) -> dict[str, int]:
    """Read the ids of the special tokens by name, as ``pad_token_id``.

    Args:
        tokenizer_dir: Directory with ``tokenizer.json`` and what says which token is which.
        path: The checkpoint; its configuration is asked for the padding when the files don't say.

    Raises:
        ModelError: No padding token is known.
    """
    from edgebert.formats import checkpoint_files

    try:
        return checkpoint_files.special_token_ids(tokenizer_dir, read_config(path or tokenizer_dir))
    except DamagedBundleError as error:
        raise ModelError(str(error)) from error
