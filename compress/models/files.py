"""What a checkpoint's directory must hold, checked before anything is loaded."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from compress.models.architecture import SHARED_BERT
from edgebert.errors import InputError, ModelError
from edgebert.formats.positions import max_positions as max_positions

# BERT and its relatives: an embedding table, layers of attention and feed-forward, one encoder.
FAMILIES = (
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "electra",
    "distilbert",
    "albert",
    "deberta-v2",
    "mobilebert",
    SHARED_BERT,
)
_PICKLES = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
)
_LFS = b"version https://git-lfs"
_MAX_HEADER_BYTES = 100_000_000  # what the format allows
_NO_HEADER = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


def read_config(path: Path) -> dict[str, Any]:
    """Read a checkpoint's ``config.json``.

    Raises:
        ModelError: It is missing, or holds no JSON object.
    """
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{path} is no checkpoint: it has no config.json. Give a directory that "
            "save_pretrained wrote, an alias (--list-teachers) or a hub id."
        ) from error
    except (ValueError, OSError) as error:
        raise ModelError(f"{file} can't be read as JSON ({error}); make it again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{file} holds no JSON object; make it again.")
    return config


def check_family(path: Path) -> None:
    """Make sure that a checkpoint is of a family that every step knows.

    Raises:
        ModelError: It isn't.
    """
    family = read_config(path).get("model_type")
    if family not in FAMILIES:
        raise ModelError(
            f"{path} holds a model of type {family!r}; edgebert compresses encoders of the types "
            f"{', '.join(FAMILIES)}. Of another encoder `compress.export --exporter optimum` may "
            "make a bundle as it is."
        )


def check_checkpoint(path: Path) -> None:
    """Make sure that a directory holds a whole checkpoint in safetensors.

    Raises:
        ModelError: The configuration or the weights are missing, cut short, or there only as
            pickles.
    """
    read_config(path)
    index = path / "model.safetensors.index.json"
    if (path / "model.safetensors").is_file():
        shards = ["model.safetensors"]
    elif index.is_file():
        try:
            weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            shards = sorted(set(weight_map.values()))
            leaving = [shard for shard in shards if Path(shard).name != shard]
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError, OSError) as error:
            raise ModelError(f"{index} can't be read ({error!r}); get it again.") from error
        if leaving:
            raise ModelError(f"{index} names {leaving[0]!r:.200}, which is not in its folder.")
    else:
        raise _no_weights(path)
    for shard in shards:
        check_safetensors(path / shard)


def _no_weights(path: Path) -> ModelError:
    pickles = [name for name in _PICKLES if (path / name).is_file()]
    problem = (
        f"has its weights only in {pickles[0]}, a format that may run code when it is opened"
        if pickles
        else "has no model.safetensors"
    )
    return ModelError(
        f"{path} {problem}. Get the checkpoint again, or, if it exists only as pytorch_model.bin "
        'and you trust it, convert it: python -c "from transformers import AutoModel as M; '
        "M.from_pretrained('IN').save_pretrained('OUT')\" (AutoModelForSequenceClassification for "
        "one with a head), copy its tokenizer files into OUT, and give OUT."
    )


def check_safetensors(file: Path) -> None:
    """Compare the size of a file with what its header says.

    Raises:
        ModelError: It is missing, no safetensors file, or not as long as its header says.
    """
    if not file.is_file():
        raise ModelError(f"{file} is missing; get the checkpoint again.")
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(len(_LFS))
        if start == _LFS:
            raise ModelError(f"{file} is a Git LFS pointer, not weights; run `git lfs pull`.")
        length = struct.unpack("<Q", start[:8])[0] if size >= 8 else size
        if 8 + length > size:
            raise ModelError(f"{file} is damaged: its header is cut short; get it again.")
        if length > _MAX_HEADER_BYTES:
            raise ModelError(f"{file} is damaged: its header has {length} bytes; get it again.")
        stream.seek(8)
        try:
            header = json.loads(stream.read(length))
            ends = [x["data_offsets"][1] for name, x in header.items() if name != "__metadata__"]
            expected = 8 + length + max(map(int, ends), default=0)
        except (*_NO_HEADER, RecursionError) as error:
            raise ModelError(f"{file} is damaged: its header is no JSON; get it again.") from error
    if size != expected:
        raise ModelError(f"{file} is damaged: {size} bytes, {expected} expected; get it again.")
    try:
        with safe_open(file, framework="np"):
            pass
    except SafetensorError as error:  # shapes, types or places that don't fit
        raise ModelError(f"{file} is damaged ({error}); get it again.") from error


def check_max_length(path: Path, max_length: int) -> None:
    """Make sure that a checkpoint has a position for every token.

    Raises:
        InputError: ``max_length`` is above what its position table has.
    """
    limit = max_positions(read_config(path))
    if limit is not None and max_length > limit:
        raise InputError(
            f"max_length {max_length} is more than the {limit} positions of {path}; "
            f"give --max-length {limit} or less."
        )
