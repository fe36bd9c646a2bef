"""Taggers and answerers whose model can be read off: a token's logits are looked up by its word.

A word may also change the logits of the token behind it, so that what a window shows of a text
matters: ``world`` can be a name behind ``hello`` only.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgebert.engines.selftest import golden_outputs
from edgebert.formats.manifest import Artifact, FileRecord, Golden, Manifest
from edgebert.text.tokenizer import Tokenizer
from runtimes import SessionOptions, load_backend
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
PATH = "onnx/model.onnx"


def logits_of(width: int, words: dict[str, dict[int, float]]) -> Any:
    """Make a table ``[vocabulary, width]`` from the logits of some words; the rest is 0."""
    table = np.zeros((len(VOCAB), width), dtype=np.float32)
    for word, logits in words.items():
        for column, value in logits.items():
            table[VOCAB.index(word), column] = value
    return table


def write_tagger(directory: Path, *, model_tags: int = len(TAGS), **changes: Any) -> None:
    """Write a tagger: ``hello`` begins a PER, ``world`` behind it is inside; ``film`` is a LOC."""
    own = logits_of(model_tags, {"hello": {1: 8.0}, "film": {3: 8.0}})
    own[:, 0] += 4.0
    behind = logits_of(model_tags, {"hello": {2: 8.0}})
    _write(
        directory,
        task="token-classification",
        tables={"logits": (own, behind)},
        **{"labels": TAGS, "on_long": "window", **changes},
    )


def write_answerer(
    directory: Path,
    *,
    starts: dict[str, float],
    ends: dict[str, float],
    none: float = 0.0,
    **changes: Any,
) -> None:
    """Write an answerer.

    Args:
        directory: Where to.
        starts: How well an answer starts at a word.
        ends: How well it ends there.
        none: Score of no answer.
        changes: Fields of the manifest.
    """
    tables = {}
    for name, words in (("start_logits", starts), ("end_logits", ends)):
        table = logits_of(1, {word: {0: value} for word, value in words.items()})
        table[VOCAB.index("[CLS]"), 0] = none / 2
        tables[name] = (table, np.zeros_like(table))
    settings = {"pairs": True, "on_long": "window", **changes}
    _write(directory, task="question-answering", tables=tables, **settings)


def _write(directory: Path, *, task: str, tables: dict[str, Any], **settings: Any) -> None:
    write_tokenizer(directory)
    _write_graph(directory / PATH, tables, squeeze=task == "question-answering")
    texts = ("good film", "hello world")
    pairs = texts[::-1] if settings.get("pairs") else None
    settings.setdefault("max_length", 32)
    tokenizer = Tokenizer(directory, special_ids=SPECIAL_IDS)
    encodings = tokenizer.encode(texts, pairs, max_length=settings["max_length"])
    artifact = Artifact(
        backend="onnx",
        precision="fp32",
        files=(FileRecord.of(directory, PATH),),
        recipe={"exporter": "by hand"},
        gated_on="a test",
        min_engine="onnxruntime 1.17",
        batch_invariant=True,
        golden=(),
        tolerance=1e-4,
    )
    manifest = Manifest(
        task=task,
        hidden_size=8,
        special_ids=SPECIAL_IDS,
        files=(FileRecord.of(directory, "tokenizer.json"),),
        artifacts=(artifact,),
        golden=Golden(
            texts=texts,
            text_pairs=pairs,
            input_ids=tuple(tuple(one.input_ids.tolist()) for one in encodings),
        ),
        **settings,
    )
    backend = load_backend("onnx", directory / PATH, SessionOptions(threads=1))
    golden = tuple(tuple(row.tolist()) for row in golden_outputs(backend, tokenizer, manifest))
    backend.close()
    replace(manifest, artifacts=(replace(artifact, golden=golden),)).save(directory)


def _write_graph(path: Path, tables: dict[str, Any], *, squeeze: bool) -> None:
    """Write ``table[ids] + behind[ids of the token before]`` for each output."""
    node = helper.make_node
    nodes = [  # starts, ends, axes: the second axis is that of the tokens
        node("Slice", ["input_ids", "zero", "one", "one"], ["first"]),
        node("Slice", ["input_ids", "zero", "minus", "one"], ["front"]),
        node("Concat", ["first", "front"], ["before"], axis=1),
    ]
    values = {name: np.array([n]) for name, n in (("zero", 0), ("one", 1), ("minus", -1))}
    outputs = []
    for name, (own, behind) in tables.items():
        result = f"{name}_wide" if squeeze else name
        nodes += [
            node("Gather", [f"{name}_own", "input_ids"], [f"{name}_a"]),
            node("Gather", [f"{name}_behind", "before"], [f"{name}_b"]),
            node("Add", [f"{name}_a", f"{name}_b"], [result]),
        ]
        if squeeze:
            nodes.append(node("Squeeze", [result, "last"], [name]))
        shape = ["batch", "seq"] if squeeze else ["batch", "seq", own.shape[1]]
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        values |= {f"{name}_own": own, f"{name}_behind": behind, "last": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "tokens",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
