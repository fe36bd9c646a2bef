"""The files by which sentence-transformers knows how a model's vectors are made."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from safetensors.torch import load_file, save_file
from torch import nn, ones

from compress.models.capture import Pooling
from compress.models.dense import dense_parts, read_dense, write_dense
from compress.models.files import check_safetensors
from edgebert.errors import ModelError
from edgebert.files import write_json
from edgebert.formats.sentence_files import POOLING_SWITCHES, pooling_modes

MODULES_NAME = "modules.json"
_FILES = (MODULES_NAME, "sentence_bert_config.json", "config_sentence_transformers.json")
_LAYERS = "WeightedLayerPooling"
_ORDER = re.compile(rf"Transformer( {_LAYERS})? Pooling( Dense)*( Normalize)?")


@dataclass(frozen=True, kw_only=True)
class SentenceLayout:
    """How a checkpoint says that its vectors are made.

    Attributes:
        pooling: ``mean``, ``cls`` or ``max``.
        normalize: Whether vectors get unit length.
        pooling_layers: How many of the last layers are averaged before they are pooled.
        dense: What comes after pooling, Dense modules in a row; or None.
        max_length: Longest input in tokens, or None where it doesn't say.
        prompts: Text before an input, by role (``query``, ``document``).
    """

    pooling: Pooling
    normalize: bool
    pooling_layers: int = 1
    dense: nn.Module | None = None
    max_length: int | None = None
    prompts: dict[str, str] = field(default_factory=dict)


def read_layout(directory: Path, pooling: Pooling | None = None) -> SentenceLayout | None:
    """Read how a checkpoint's vectors are made; None where it has no ``modules.json``.

    Args:
        directory: Of the checkpoint.
        pooling: What the user chose, which wins; the checkpoint's own isn't read then.

    Raises:
        ModelError: It has a module that a bundle can't hold, or a pooling that we don't know and
            none was chosen.
    """
    if not (directory / MODULES_NAME).is_file():
        return None
    modules = _read(directory / MODULES_NAME)
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    if not _ORDER.fullmatch(" ".join(kinds)):
        raise ModelError(
            f"{directory} makes its vectors by {', '.join(kinds)}; a bundle can hold Transformer, "
            "WeightedLayerPooling, Pooling, Dense and Normalize, in this order. Distill it into a "
            "student instead, which needs no more."
        )
    folders = [_folder(directory, module) for module in modules]
    places = dict(zip(kinds, folders, strict=True))
    dense = [
        read_dense(folder, _read(folder / "config.json"))
        for folder, kind in zip(folders, kinds, strict=True)
        if kind == "Dense"
    ]
    limits = _read(directory / "sentence_bert_config.json", default={})
    settings = _read(directory / "config_sentence_transformers.json", default={})
    prompts = settings.get("prompts") or {}
    return SentenceLayout(
        pooling=pooling or _pooling(places["Pooling"] / "config.json"),
        normalize=kinds[-1] == "Normalize",
        pooling_layers=_layers(places[_LAYERS]) if _LAYERS in places else 1,
        dense=nn.Sequential(*dense) if dense else None,
        max_length=limits.get("max_seq_length"),
        prompts={r: str(prompts[r]) for r in ("query", "document") if prompts.get(r)},
    )


def _folder(directory: Path, module: dict[str, Any]) -> Path:
    path = PurePosixPath(str(module.get("path", "")))
    if path.is_absolute() or ".." in path.parts:
        raise ModelError(f"{directory / MODULES_NAME} names the path {path}, which leaves it.")
    return directory / path


def _layers(directory: Path) -> int:
    """Read how many of the last layers are averaged."""
    settings = _read(directory / "config.json")
    count = int(settings["num_hidden_layers"]) + 1 - int(settings["layer_start"])
    check_safetensors(directory / "model.safetensors")
    weights = load_file(directory / "model.safetensors").get("layer_weights")
    if weights is None or weights.shape != (count,) or not weights.eq(weights[0]).all():
        raise ModelError(
            f"{directory} weights its layers differently; a bundle can hold the plain mean of the "
            "last ones."
        )
    return count


def _pooling(path: Path) -> Pooling:
    modes = pooling_modes(_read(path))
    for pooling in get_args(Pooling):
        if modes == [pooling]:
            known: Pooling = pooling
            return known
    raise ModelError(
        f"{path} pools by {modes}; a bundle can pool by {', '.join(get_args(Pooling))}. Give "
        "--pooling if one of them is meant."
    )


def write_layout(
    directory: Path,
    layout: SentenceLayout,
    *,
    hidden_size: int,
    num_hidden_layers: int | None = None,
) -> list[str]:
    """Write the files, in the form that every release of sentence-transformers reads.

    Args:
        directory: Of the checkpoint.
        layout: What to write.
        hidden_size: Of the encoder.
        num_hidden_layers: Of the encoder; needed with more than one of ``pooling_layers``.

    Returns:
        What was written, relative to ``directory``, with forward slashes.

    Raises:
        ModelError: ``pooling_layers`` without ``num_hidden_layers``.
    """
    kinds = _kinds(layout)
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (path, kind) in enumerate(kinds)
    ]
    write_json(directory / MODULES_NAME, modules)
    folders = [directory / path for path, kind in kinds if kind == "Dense"]
    for folder, part in zip(folders, dense_parts(layout.dense), strict=True):
        write_dense(part, folder)
    if layout.pooling_layers > 1:
        _write_layers(directory / f"0_{_LAYERS}", layout, hidden_size, num_hidden_layers)
    (directory / "1_Pooling").mkdir()
    modes = {name: pooling == layout.pooling for name, pooling in POOLING_SWITCHES.items()}
    pooling = {"word_embedding_dimension": hidden_size, **modes}
    write_json(directory / "1_Pooling" / "config.json", pooling)
    limits: dict[str, Any] = {"max_seq_length": layout.max_length, "do_lower_case": False}
    if layout.pooling_layers > 1:
        limits["config_args"] = {"output_hidden_states": True}
    write_json(directory / "sentence_bert_config.json", limits)
    settings = {"prompts": layout.prompts, "similarity_fn_name": "cosine"}
    write_json(directory / "config_sentence_transformers.json", settings)
    return _written(directory, [path for path, _ in kinds if path])


def copy_layout(source: Path, target: Path) -> None:
    """Copy what a checkpoint says of its vectors as it is; nothing without ``modules.json``.

    Raises:
        ModelError: ``modules.json`` can't be read, or names a folder outside.
    """
    if not (source / MODULES_NAME).is_file():
        return
    found = [source / name for name in _FILES]
    for module in _read(source / MODULES_NAME):
        folder = _folder(source, module)
        found += folder.rglob("*") if folder != source else ()
    for file in found:
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)


def _kinds(layout: SentenceLayout) -> list[tuple[str, str]]:
    """List the modules in their order: folder and kind."""
    layers = [(f"0_{_LAYERS}", _LAYERS)] if layout.pooling_layers > 1 else []
    rest = ["Dense"] * len(dense_parts(layout.dense)) + ["Normalize"] * layout.normalize
    behind = [(f"{place}_{kind}", kind) for place, kind in enumerate(rest, start=2)]
    return [("", "Transformer"), *layers, ("1_Pooling", "Pooling"), *behind]


def _write_layers(
    directory: Path, layout: SentenceLayout, hidden_size: int, num_hidden_layers: int | None
) -> None:
    if num_hidden_layers is None:
        raise ModelError("pooling_layers needs num_hidden_layers, to say which layers are meant.")
    directory.mkdir()
    settings = {
        "word_embedding_dimension": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "layer_start": num_hidden_layers + 1 - layout.pooling_layers,
    }
    write_json(directory / "config.json", settings)
    weights = directory / "model.safetensors"
    save_file({"layer_weights": ones(layout.pooling_layers)}, weights, {"format": "pt"})
    weights.chmod((directory / "config.json").stat().st_mode)  # written for the owner's eyes only


def _written(directory: Path, folders: list[str]) -> list[str]:
    names = [*_FILES]
    for folder in folders:
        for name in ("config.json", "model.safetensors"):
            if (directory / folder / name).is_file():
                names.append(f"{folder}/{name}")
    return names


def _read(path: Path, *, default: Any = None) -> Any:
    if default is not None and not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} can't be read as JSON ({error}).") from error
