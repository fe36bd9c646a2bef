"""A checkpoint's weights as the torch model of a task, with its head told from a new one."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.models.files import read_config
from compress.models.hub import one_line, quiet
from compress.models.labels import align_labels, is_nameless, named_labels, reorder_head, set_labels
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

logger = logging.getLogger(__name__)

NAMED = ("text-classification", "token-classification")  # tasks whose logits have names
MODEL_CLASSES = {  # what `transformers.Auto…` of each task is called
    "text-classification": "ModelForSequenceClassification",
    "regression": "ModelForSequenceClassification",
    "token-classification": "ModelForTokenClassification",
    "question-answering": "ModelForQuestionAnswering",
    "multiple-choice": "ModelForMultipleChoice",
    "fill-mask": "ModelForMaskedLM",
    "feature-extraction": "Model",
}
_LOADED_ALONG = ("torchao", "torch.utils._pytree")  # with the first model, each with warnings
_LOGITS = {"regression": 1, "question-answering": 2}  # whatever the checkpoint's config says


def auto_class(task: str) -> Any:
    """Give the class of transformers that makes a model with the head of a task."""
    return getattr(_library(), f"Auto{MODEL_CLASSES[task]}")


def _library() -> Any:
    """Give transformers, whose ``Auto…`` classes then open our own family too."""
    with quiet_transformers():
        import transformers

        import compress.models.shared_bert  # noqa: F401  it makes itself known
    return transformers


def task_config(path: Path, task: str) -> PreTrainedConfig:
    """Read a checkpoint's configuration, with the number of logits that its task has.

    A checkpoint without the task's head names any number, two if its authors said nothing.

    Raises:
        ModelError: It says what no model of its family can be.
    """
    config: Any = _configuration(path)
    if task in _LOGITS:
        config.num_labels = _LOGITS[task]
    if task == "regression":
        config.problem_type = "regression"
    return config  # type: ignore[no-any-return]


def _configuration(path: Path) -> PreTrainedConfig:
    try:
        config: PreTrainedConfig = _library().AutoConfig.from_pretrained(
            path, local_files_only=True
        )
    except Exception as error:  # the library's errors have no parent of their own
        raise ModelError(f"{path / 'config.json'} can't be used ({one_line(error)}).") from error
    return config


def load_encoder(path: Path) -> PreTrainedModel:
    """Load an encoder without any head, and without a pooler where the family can go without.

    Raises:
        ModelError: It can't be loaded.
    """
    return _from_pretrained("feature-extraction", path, without_pooler=True)[0]


def load_as_saved(path: Path) -> PreTrainedModel:
    """Load a model as it was saved, with its head or without one, in its own precision.

    Raises:
        ModelError: It can't be loaded, or its head isn't whole.
    """
    named = read_config(path).get("architectures")
    name = str(named[0]) if isinstance(named, list) and named else None
    with quiet_transformers():
        maker = _class_named(name) if name else auto_class("feature-extraction")
        if maker is None:
            raise ModelError(
                f"{path} was saved as {name!r:.100}, a class that transformers hasn't."
            )
        model, info = _load(maker, path, dtype="auto")
    missing, mismatched = _check_loaded(path, model, info)
    if missing and model.base_model is model:  # an encoder that was saved without its pooler
        model.pooler = None  # type: ignore[assignment]
    elif missing or mismatched:
        raise ModelError(
            f"{path} was saved as {name}, but lacks weights of its head, or has them in other "
            f"shapes ({', '.join(sorted(missing)[:3])}); get the checkpoint again."
        )
    if info["unexpected_keys"]:
        left = sorted(info["unexpected_keys"])
        logger.warning("%d weights of %s are left out: %s has no %s.", len(left), path, name, left)
    return model


def _class_named(name: str) -> Any:
    """Give the model of transformers, or of our own family, that has a name; None without one."""
    library = _library()
    from compress.models.shared_bert import MODELS

    found = getattr(library, name, None) or MODELS.get(name)
    is_model = isinstance(found, type) and issubclass(found, library.PreTrainedModel)
    return found if is_model else None


def load_headed(path: Path, task: str) -> tuple[PreTrainedModel, bool]:
    """Load a model of a task whose logits have no names; tell whether its head was there.

    Raises:
        ModelError: It can't be loaded, or its head gives another number of logits.
    """
    config = task_config(path, task)
    model, missing, mismatched = _from_pretrained(task, path, config=config)
    if task == "regression" and mismatched and not missing:
        raise ModelError(
            f"The head of {path} gives more than one logit, so it is no regression; give a "
            "checkpoint of a regression or one without a head."
        )
    return model, not (missing or mismatched or _is_of_another_task(config, task))


def load_labelled(
    path: Path,
    task: str,
    labels: Sequence[str],
    *,
    problem_type: str | None,
    teacher_labels: Sequence[str],
) -> tuple[PreTrainedModel, bool, tuple[str, ...]]:
    """Load a model whose logits are classes or tags, in the order of ``labels``.

    Returns:
        The model, whether its head was there, and the names in the order of the logits.

    Raises:
        ModelError: It can't be loaded, or its labels don't fit the data's.
    """
    config: Any = task_config(path, task)
    own = {int(logit): str(name) for logit, name in config.id2label.items()}
    kind = config.problem_type if task == "text-classification" else None
    if labels:
        config.num_labels = len(labels)
    if task == "text-classification" and problem_type is not None:
        config.problem_type = problem_type
    model, missing, mismatched = _from_pretrained(task, path, config=config)
    missing = missing or _is_of_another_task(config, task)
    if missing and not labels:
        raise ModelError(f"{path} has no {task} head; train one with compress.train.")
    if missing:
        set_labels(model, labels)
        return model, False, tuple(labels)
    if kind and problem_type and kind != problem_type:
        raise ModelError(
            f"The head of {path} was trained for {kind}, but the data is read as {problem_type}; "
            f"give --problem-type {kind} and data of that kind, or a checkpoint without a head."
        )
    if teacher_labels:
        own = named_labels(own, teacher_labels)
    if not labels:
        labels = tuple(own[logit] for logit in sorted(own))
        if is_nameless(labels):
            logger.warning("The labels of %s have no names, only %s, ….", path, labels[0])
    permutation = align_labels(own, labels)
    if mismatched:
        raise ModelError(f"{path}: config.json names {len(own)} labels, but the head has others.")
    reorder_head(model, permutation)
    set_labels(model, labels)
    return model, True, tuple(labels)


def _is_of_another_task(config: PreTrainedConfig, task: str) -> bool:
    """Whether the head that a checkpoint was saved with is one of another task.

    The last layers of several have one name, ``classifier``, so they can load into each other.
    """
    wanted = MODEL_CLASSES[task].removeprefix("Model")
    saved = [name.partition("For") for name in config.architectures or ()]
    others = [f"For{head}" for _, found, head in saved if found]
    return bool(others) and wanted not in others and "ForPreTraining" not in others


def _from_pretrained(
    task: str, path: Path, *, config: Any = None, without_pooler: bool = False
) -> tuple[PreTrainedModel, bool, bool]:
    """Load a model; tell whether parts of its head were missing, and whether some had no fit."""
    import torch

    options: dict[str, Any] = {"config": config} if config is not None else {}
    if without_pooler and _takes_pooler_option(path):
        options["add_pooling_layer"] = False
    model, info = _load(auto_class(task), path, dtype=torch.float32, **options)
    _blank_padding(model)
    missing, mismatched = _check_loaded(path, model, info)
    return model, bool(missing), mismatched


def _load(maker: Any, path: Path, **options: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Load a model from safetensors; give what transformers says of missing weights along."""
    try:
        model, info = maker.from_pretrained(
            path,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **options,
        )
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(f"{path} can't be loaded ({one_line(error)}).") from error
    return model, info


def _blank_padding(model: Any) -> None:
    """Make the row of padding 0 in MobileBERT, where a token sees the rows of its neighbours.

    Where it isn't, a text's last token has padding beside it in a batch, and nothing alone.
    """
    if model.config.model_type == "mobilebert" and model.config.pad_token_id is not None:
        model.get_input_embeddings().weight.data[model.config.pad_token_id] = 0


def _check_loaded(path: Path, model: PreTrainedModel, info: Any) -> tuple[set[str], bool]:
    """Refuse an encoder with gaps; name what else is missing, and tell whether some has no fit."""
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    missing = set(info["missing_keys"]) - tied
    base = f"{model.base_model_prefix}."
    is_base = model.base_model is model
    encoder = {key for key in missing if is_base or key.startswith(base)}
    wrong = [key for key, *_ in info["mismatched_keys"] if is_base or key.startswith(base)]
    lost = sorted(key for key in encoder if "pooler" not in key) + sorted(wrong)
    if lost:
        raise ModelError(
            f"{path} lacks {len(lost)} weights of its encoder, or has them in other shapes "
            f"({', '.join(lost[:3])}); its config.json and model.safetensors don't belong together."
        )
    return missing, bool(info["mismatched_keys"])


def _takes_pooler_option(path: Path) -> bool:
    model_class = _library().MODEL_MAPPING[type(_configuration(path))]
    return "add_pooling_layer" in inspect.signature(model_class).parameters


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Say nothing of missing heads and show no bar: the caller is told by what is returned."""
    with no_progress_bar(), quiet("transformers", *_LOADED_ALONG):
        yield


@contextmanager
def no_progress_bar() -> Iterator[None]:
    """Keep transformers' own bars off stderr, where they'd be noise in a log."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
