"""A ``.tflite`` with the metadata that MediaPipe's TextClassifier reads: vocabulary, labels, names.

The package's own writer fails to import where it can be had (mediapipe 1.2.3 lacks a module of it).
So the metadata is written here, by the numbers of its schema (``metadata_schema.fbs``, and
``schema.fbs`` of the model's file), and MediaPipe is what tests it.

MediaPipe runs a file's first graph, of one length, pads every text to it, and shows the outputs as
they are: its scores are the logits. Its tokenizer makes ASCII letters small and strips no accents.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from edgebert.apps.flatbuffer import Byte, Old, Table, Value, flatbuffer
from edgebert.apps.wordpiece import read_wordpiece
from edgebert.errors import InputError
from edgebert.files import write_bytes
from edgebert.formats.manifest import Artifact, Manifest
from runtimes.tflite_file import field, number, tables

FILE_NAME, NAME = "mediapipe.tflite", "TFLITE_METADATA"
_VERSION, _CODES, _SUBGRAPHS, _DESCRIPTION, _BUFFERS, _SIGNATURES = 0, 1, 2, 3, 4, 7
_LABELS, _VOCABULARY = 2, 5  # kinds of files
_BERT_TOKENIZER, _FEATURE = 4, 1  # kinds of unions
_NAMES = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}


def check_mediapipe(manifest: Manifest, artifact: Artifact, source: object) -> None:
    """Refuse what MediaPipe has no task for.

    Raises:
        InputError: The artifact is no ``.tflite``, or the bundle no classifier of single texts.
    """
    if artifact.backend != "tflite":
        raise InputError(
            f"--mediapipe needs a .tflite, and {source} would give an app {artifact.backend}/"
            f"{artifact.precision}. Take --for android, and a bundle exported for tflite."
        )
    if manifest.task != "text-classification" or manifest.pairs:
        raise InputError(
            f"{source} is for {manifest.task}{' of pairs' if manifest.pairs else ''}; MediaPipe "
            "takes a text-classification of single texts alone. Leave --mediapipe away."
        )


def write_mediapipe(bundle: Path, artifact: Artifact, manifest: Manifest, folder: Path) -> None:
    """Write ``mediapipe.tflite`` into an app's folder.

    Raises:
        InputError: The tokenizer or the inputs aren't those that MediaPipe has.
    """
    vocab = read_wordpiece(bundle).vocab
    data = with_metadata(bundle / artifact.files[0].path, manifest, vocab)
    write_bytes(folder / FILE_NAME, data)


def with_metadata(model: Path, manifest: Manifest, vocab: str) -> bytes:
    """Give the model's file with one graph, its longest, and what MediaPipe must know.

    Args:
        model: The ``.tflite``, with a signature for each length.
        manifest: Of a classifier.
        vocab: A token a line.

    Raises:
        InputError: The model lacks one of the three inputs that MediaPipe gives.
    """
    old = model.read_bytes()
    root = number(old, "<I", 0)
    graph, names = _longest(old, root)
    if sorted(names) != sorted(_NAMES):
        raise InputError(
            f"{model} has the inputs {', '.join(sorted(names))}; MediaPipe gives three: "
            f"{', '.join(sorted(_NAMES))}. Leave --mediapipe away."
        )
    metadata = flatbuffer(_metadata(manifest, names), b"M001")
    buffers: list[Table | Old] = [Old(place) for place in tables(old, root, _BUFFERS)]
    fields: dict[int, Value] = {
        _VERSION: 3,
        _CODES: _old(old, root, _CODES),
        _SUBGRAPHS: [Old(graph)],
        _DESCRIPTION: _old(old, root, _DESCRIPTION),
        _BUFFERS: [*buffers, Table({0: metadata})],
        6: [Table({0: NAME, 1: len(buffers)})],
    }
    made = flatbuffer(Table(fields), b"TFL3", old)
    return made + _zipped(len(made), {"vocab.txt": vocab, "labels.txt": _lines(manifest.labels)})


def _longest(old: bytes, root: int) -> tuple[int, list[str]]:
    """Give the graph of the longest signature, and its inputs' names in their order there."""
    graphs = list(tables(old, root, _SUBGRAPHS))
    found = []
    for signature in tables(old, root, _SIGNATURES):
        place = field(old, signature, 4)
        graph = graphs[number(old, "<I", place) if place else 0]
        by_tensor = {_int(old, one, 1): _text(old, one, 0) for one in tables(old, signature, 0)}
        inputs = _ints(old, graph, 1)
        tensors = list(tables(old, graph, 0))
        length = _ints(old, tensors[inputs[0]], 0)[1]
        found.append((length, graph, [by_tensor[tensor] for tensor in inputs]))
    _, graph, names = max(found)
    return graph, names


def _metadata(manifest: Manifest, names: list[str]) -> Table:
    vocabulary = Table({0: "vocab.txt", 1: "A token a line.", 2: Byte(_VOCABULARY)})
    labels = Table({0: "labels.txt", 1: "A label a line.", 2: Byte(_LABELS)})
    tokenizer = Table({0: Byte(_BERT_TOKENIZER), 1: Table({0: [vocabulary]})})
    feature = Table({0: Byte(_FEATURE), 1: Table({})})
    graph: dict[int, Value] = {
        2: [Table({0: _NAMES[name], 1: name, 3: feature}) for name in names],
        3: [Table({0: "probability", 1: "Logits.", 3: feature, 6: [labels]})],
        5: [tokenizer],
    }
    lengths = f"Texts up to {manifest.max_length} tokens; scores are logits."
    return Table({0: "edgebert student", 1: lengths, 3: [Table(graph)], 7: "1.3.0"})


def _zipped(start: int, files: dict[str, str]) -> bytes:
    """Give a ZIP archive as it stands behind ``start`` bytes, in which offsets count from 0."""
    stream = io.BytesIO(bytes(start))
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text.encode("utf-8"))
    return stream.getvalue()[start:]


def _lines(labels: tuple[str, ...]) -> str:
    return "".join(f"{label}\n" for label in labels)


def _old(old: bytes, table: int, which: int) -> Old | None:
    place = field(old, table, which)
    return None if place is None else Old(place + number(old, "<I", place))


def _int(old: bytes, table: int, which: int) -> int:
    place = field(old, table, which)
    return 0 if place is None else number(old, "<I", place)


def _ints(old: bytes, table: int, which: int) -> list[int]:
    place = field(old, table, which)
    if place is None:
        return []
    vector = place + number(old, "<I", place)
    count = number(old, "<I", vector)
    return [number(old, "<i", at) for at in range(vector + 4, vector + 4 + 4 * count, 4)]


def _text(old: bytes, table: int, which: int) -> str:
    place = field(old, table, which)
    if place is None:
        return ""
    start = place + number(old, "<I", place)
    return old[start + 4 : start + 4 + number(old, "<I", start)].decode("utf-8")
