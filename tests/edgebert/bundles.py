"""Bundles whose model is simple enough to calculate by hand, made without torch.

Its hidden state of a token is ``table[id] + types[type_id] + context``, where the context is the
mean of the former two over the real tokens of the text; its logits are ``context @ weight``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgebert.manifest import Artifact, FileRecord, Golden, Manifest
from edgebert.selftest import golden_outputs
from edgebert.tokenizer import Tokenizer
from runtimes import SessionOptions, load_backend
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer

HIDDEN = 8
_RANDOM = np.random.default_rng(0)
TABLE = _RANDOM.normal(size=(len(VOCAB), HIDDEN)).astype(np.float32)
TYPES = _RANDOM.normal(size=(2, HIDDEN)).astype(np.float32)
WEIGHT = _RANDOM.normal(size=(HIDDEN, 3)).astype(np.float32)
LABELS = ("bad", "fair", "good")
TEXTS = ("good film", "a", "hello world, the plot is very dull!")


def hidden_by_hand(input_ids: Any, token_type_ids: Any = 0) -> Any:
    """Calculate one text's last hidden state, float32 ``[seq, hidden]``."""
    own = TABLE[np.asarray(input_ids)] + TYPES[np.asarray(token_type_ids)]
    return own + own.mean(axis=0)


def logits_by_hand(input_ids: Any, token_type_ids: Any = 0) -> Any:
    """Calculate one text's logits, float32 ``[labels]``."""
    own = TABLE[np.asarray(input_ids)] + TYPES[np.asarray(token_type_ids)]
    return own.mean(axis=0) @ WEIGHT


def write_graph(
    path: Path, *, output: str, types: bool = True, mates: bool = False, sick: str | None = None
) -> None:
    """Write the model.

    Args:
        path: The ``.onnx`` file.
        output: ``logits`` or ``last_hidden_state``.
        types: Whether it takes ``token_type_ids``.
        mates: Add the mean of the whole batch, so that a result depends on the other texts.
        sick: A word whose vector is infinite.
    """
    node = helper.make_node
    nodes = [node("Gather", ["table", "input_ids"], ["words"])]
    own = "words"
    if types:
        nodes.append(node("Gather", ["types", "token_type_ids"], ["kinds"]))
        nodes.append(node("Add", ["words", "kinds"], ["own"]))
        own = "own"
    nodes += [
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "two"], ["mask3"]),
        node("Mul", [own, "mask3"], ["masked"]),
        node("ReduceSum", ["masked", "one"], ["total"], keepdims=1),
        node("ReduceSum", ["mask3", "one"], ["count"], keepdims=1),
        node("Div", ["total", "count"], ["context"]),
    ]
    source = "context"
    if mates:
        nodes.append(node("ReduceMean", [own], ["whole"], keepdims=1))
        nodes.append(node("Add", ["context", "whole"], ["disturbed"]))
        source = "disturbed"
    if output == "logits":
        nodes.append(node("Squeeze", [source, "one"], ["pooled"]))
        nodes.append(node("MatMul", ["pooled", "weight"], ["logits"]))
        shape: list[str | int] = ["batch", WEIGHT.shape[1]]
    else:
        nodes.append(node("Add", [own, source], ["last_hidden_state"]))
        shape = ["batch", "seq", HIDDEN]
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    table = TABLE.copy()
    if sick is not None:
        table[VOCAB.index(sick)] = np.inf
    constants = {"table": table, "types": TYPES, "weight": WEIGHT}
    axes = {"one": np.array([1], dtype=np.int64), "two": np.array([2], dtype=np.int64)}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "seq"]) for n in names],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(v, k) for k, v in {**constants, **axes}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))


def write_bundle(
    directory: Path, *, task: str, precisions: tuple[str, ...] = ("fp32",), **changes: Any
) -> Manifest:
    """Write a bundle with one ONNX artifact a precision; ``int8`` is one that minds its mates.

    Args:
        directory: Where to.
        task: ``text-classification`` or ``feature-extraction``.
        precisions: Which artifacts.
        changes: Fields of the manifest, and ``types`` and ``sick`` of `write_graph`.
    """
    graph = {name: changes.pop(name) for name in ("types", "sick") if name in changes}
    write_tokenizer(directory)
    output = "logits" if task == "text-classification" else "last_hidden_state"
    artifacts = []
    for precision in precisions:
        path = "onnx/model.onnx" if precision == "fp32" else "onnx/model_quantized.onnx"
        write_graph(directory / path, output=output, mates=precision == "int8", **graph)
        artifacts.append(_artifact(directory, path, precision))
    own: dict[str, Any] = (
        {"labels": LABELS, "problem_type": "single_label_classification"}
        if task == "text-classification"
        else {"pooling": "mean", "normalize": True}
    )
    own = {**own, **changes}
    own.setdefault("max_length", 32)
    tokenizer = Tokenizer(directory, special_ids=SPECIAL_IDS)
    pairs = TEXTS[::-1] if own.get("pairs") else None
    encodings = tokenizer.encode(TEXTS, pairs, max_length=own["max_length"])
    manifest = Manifest(
        task=task,
        hidden_size=HIDDEN,
        special_ids=SPECIAL_IDS,
        files=(FileRecord.of(directory, "tokenizer.json"),),
        artifacts=tuple(artifacts),
        golden=Golden(
            texts=TEXTS,
            text_pairs=pairs,
            input_ids=tuple(tuple(one.input_ids.tolist()) for one in encodings),
        ),
        **own,
    )
    manifest = replace(
        manifest, artifacts=tuple(_with_golden(directory, a, manifest) for a in artifacts)
    )
    manifest.save(directory)
    return manifest


def _artifact(directory: Path, path: str, precision: str) -> Artifact:
    return Artifact(
        backend="onnx",
        precision=precision,
        files=(FileRecord.of(directory, path),),
        recipe={"exporter": "by hand"},
        gated_on="a test",
        min_engine="onnxruntime 1.17",
        batch_invariant=precision == "fp32",
        golden=(),
        tolerance=1e-4,
    )


def _with_golden(directory: Path, artifact: Artifact, manifest: Manifest) -> Artifact:
    tokenizer = Tokenizer(directory, special_ids=SPECIAL_IDS)
    path = directory / artifact.files[0].path
    backend = load_backend("onnx", path, SessionOptions(threads=1))
    rows = golden_outputs(backend, tokenizer, manifest)
    backend.close()
    return replace(artifact, golden=tuple(tuple(row.tolist()) for row in rows))
