"""A manifest for a directory that has none: what ``optimum-cli export`` and others wrote.

It's made of what the files say: the task of the graph's outputs and ``config.json``, the limits and
names of the tokenizer's files, the pooling of sentence-transformers'. Nothing is guessed, nothing
written, and nothing in it was verified: there are no golden outputs and no gate.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebert.errors import ManifestError
from edgebert.foreign.artifacts import Found, find_artifacts
from edgebert.formats.checkpoint_files import (
    hidden_size,
    label_names,
    longest_input,
    read_object,
    special_token_ids,
)
from edgebert.formats.manifest import FileRecord, Golden, Manifest
from edgebert.formats.sentence_files import SentenceFiles, read_sentence_files
from edgebert.pooling import HIDDEN, SENTENCE

logger = logging.getLogger(__name__)

_TASKS = {  # of the class that a model with logits was saved from
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
}
_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_WINDOWED = ("token-classification", "question-answering")  # as bundles of ours have it


def foreign_manifest(directory: Path) -> Manifest | None:
    """Make a manifest of a directory without one; None where it has no model of an engine.

    Raises:
        ManifestError: Its files don't say what the model is for.
        DamagedBundleError: A file is missing or damaged.
    """
    found = find_artifacts(directory)
    if not found or not (directory / "config.json").is_file():
        return None
    config = read_object(directory / "config.json")
    task = _task(directory, config, found[0])
    alike = [one for one in found if one.outputs.keys() == found[0].outputs.keys()]
    for other in (one for one in found if one not in alike):
        logger.warning("%s is left out: its outputs are not those of %s", other.path, found[0].path)
    sentence = read_sentence_files(directory) if task == "feature-extraction" else None
    return Manifest(
        task=task,
        max_length=longest_input(directory, config, most=sentence.max_length if sentence else None),
        hidden_size=_hidden_size(directory, config, found[0]),
        special_ids=special_token_ids(directory, config),
        files=tuple(
            FileRecord.of(directory, name) for name in _FILES if (directory / name).is_file()
        ),
        artifacts=tuple(one.artifact(directory) for one in alike),
        golden=Golden(texts=(), text_pairs=None, input_ids=()),
        on_long="window" if task in _WINDOWED else "truncate",
        **_of_task(directory, task, config, found[0], sentence),
    )


def _task(directory: Path, config: Mapping[str, Any], found: Found) -> str:
    """Tell the task by the outputs, and where that's not enough by the model's class."""
    if {"start_logits", "end_logits"} <= found.outputs.keys():
        return "question-answering"
    if {HIDDEN, SENTENCE} & found.outputs.keys():
        return "feature-extraction"
    classes = [str(name) for name in config.get("architectures") or ()]
    tasks = [task for name in classes for end, task in _TASKS.items() if name.endswith(end)]
    if "logits" not in found.outputs or len(tasks) != 1:
        raise ManifestError(
            f"{directory} has no edgebert.json, and what its model is for can't be told: "
            f"{found.path} has the outputs {', '.join(found.outputs)}, and config.json the "
            f"architectures {classes}. Make a bundle of the model: python -m compress.export "
            "--model MODEL --output-dir OUT"
        )
    if tasks != ["text-classification"]:
        return tasks[0]
    one = config.get("problem_type") == "regression" or found.width("logits") == 1
    return "regression" if one or len(config.get("id2label") or ()) == 1 else tasks[0]


def _of_task(
    directory: Path,
    task: str,
    config: Mapping[str, Any],
    found: Found,
    sentence: SentenceFiles | None,
) -> dict[str, Any]:
    """Give the fields of the manifest that are the task's own."""
    if task == "feature-extraction":
        return _of_vectors(directory, found, sentence, _hidden_size(directory, config, found))
    fields: dict[str, Any] = {"pairs": None}  # no file says
    if task in ("question-answering", "multiple-choice"):
        fields["pairs"] = True
    elif task in ("token-classification", "fill-mask"):
        fields["pairs"] = False
    if task in ("text-classification", "token-classification"):
        fields["labels"] = label_names(config, found.width("logits"))
    if task == "text-classification":
        fields["problem_type"] = config.get("problem_type") or "single_label_classification"
    return fields


def _of_vectors(
    directory: Path, found: Found, sentence: SentenceFiles | None, hidden: int
) -> dict[str, Any]:
    if SENTENCE in found.outputs:
        width = found.width(SENTENCE) or hidden
        fields: dict[str, Any] = {"embedding_size": None if width == hidden else width}
        # a graph that normalizes already loses nothing when it's done again
        return {
            **fields,
            "normalize": sentence is not None and sentence.normalize,
            "prompts": sentence.prompts if sentence else {},
        }
    if sentence is None:
        return {}
    if not sentence.plain:
        raise ManifestError(
            f"{directory} makes its vectors by {', '.join(sentence.kinds)}, but {found.path} gives "
            "the hidden state alone. Make a bundle of the model: python -m compress.export "
            "--model MODEL --task feature-extraction --output-dir OUT"
        )
    return {
        "pooling": sentence.pooling,
        "normalize": sentence.normalize,
        "prompts": sentence.prompts,
    }


def _hidden_size(directory: Path, config: Mapping[str, Any], found: Found) -> int:
    size = hidden_size(config) or found.width(HIDDEN)
    if size is None:
        raise ManifestError(f"{directory / 'config.json'} has no hidden_size; add it.")
    return size
