"""Bundles whose model is simple enough to calculate by hand, made without torch.

Its hidden state of a token is ``table[id] + types[type_id] + context``, where the context is the
mean of the former two over the real tokens of the text. Logits of a text are the context times a
weight, those of a token its hidden state times a weight.
"""

from __future__ import annotations

import json
from collections.abc import Callable
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

HIDDEN, HIDDEN_STATE = 8, "last_hidden_state"
_RANDOM = np.random.default_rng(0)
TABLE = _RANDOM.normal(size=(len(VOCAB), HIDDEN)).astype(np.float32)
TYPES = _RANDOM.normal(size=(2, HIDDEN)).astype(np.float32)
WEIGHT = _RANDOM.normal(size=(HIDDEN, 3)).astype(np.float32)
SCORE = _RANDOM.normal(size=(HIDDEN, 1)).astype(np.float32)
TAGS = _RANDOM.normal(size=(HIDDEN, 5)).astype(np.float32)
SPAN = _RANDOM.normal(size=(HIDDEN, 2)).astype(np.float32)
DENSE = _RANDOM.normal(size=(HIDDEN, 6)).astype(np.float32)
LABELS = ("bad", "fair", "good")
TAG_LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TEXTS = ("good film", "a", "hello world, the plot is very dull!")


def hidden_by_hand(input_ids: Any, token_type_ids: Any = 0) -> Any:
    """Calculate one text's last hidden state, float32 ``[seq, hidden]``."""
    own = TABLE[np.asarray(input_ids)] + TYPES[np.asarray(token_type_ids)]
    return own + own.mean(axis=0)


def logits_by_hand(input_ids: Any, token_type_ids: Any = 0, weight: Any = WEIGHT) -> Any:
    """Calculate one text's logits, float32 ``[labels]``."""
    own = TABLE[np.asarray(input_ids)] + TYPES[np.asarray(token_type_ids)]
    return own.mean(axis=0) @ weight


# the task -> what its graph gives; see `write_graph`
GRAPHS = {
    "text-classification": "logits",
    "regression": "score",
    "multiple-choice": "score",
    "token-classification": "tags",
    "question-answering": "span",
    "fill-mask": "words",
    "feature-extraction": "last_hidden_state",
}
# what of the manifest is the task's own
FIELDS: dict[str, dict[str, Any]] = {
    "text-classification": {"labels": LABELS, "problem_type": "single_label_classification"},
    "token-classification": {"labels": TAG_LABELS},
    "feature-extraction": {"pooling": "mean", "normalize": True},
    "multiple-choice": {"pairs": True},
    "question-answering": {"pairs": True},
}


def write_graph(
    path: Path, *, output: str, types: bool = True, mates: bool = False, sick: str | None = None
) -> None:
    """Write the model.

    Args:
        path: The ``.onnx`` file.
        output: ``last_hidden_state``, or with it ``sentence_embedding`` (the context times
            ``DENSE``). Of a text: ``logits`` of ``LABELS``, or one ``score``, named logits too. Of
            a token: logits of ``tags`` or of ``words`` (the vocabulary), or ``span``: start_logits
            and end_logits.
        types: Whether it takes ``token_type_ids``.
        mates: Add the mean of the whole batch, so that a result depends on the other texts.
        sick: A word whose vector is infinite.
    """
    nodes, own, source = _body(types=types, mates=mates)
    nodes.append(_node("Add", [own, source], [HIDDEN_STATE]))
    head, outputs = _head(output, source)
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    table = TABLE.copy()
    if sick is not None:
        table[VOCAB.index(sick)] = np.inf
    constants = {
        **{"table": table, "types": TYPES, "weight": WEIGHT, "score": SCORE, "tags": TAGS},
        **{"span": SPAN, "dense": DENSE, "words_of": np.ascontiguousarray(TABLE.T)},
        **{"one": np.array([1], dtype=np.int64), "two": np.array([2], dtype=np.int64)},
    }
    used = {name for node in nodes + head for name in node.input}
    graph = helper.make_graph(
        nodes + head,
        "tiny",
        [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "seq"]) for n in names],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in outputs.items()],
        [numpy_helper.from_array(v, k) for k, v in constants.items() if k in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))


def _node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, **attributes)


def _body(*, types: bool, mates: bool) -> tuple[list[Any], str, str]:
    """Give the nodes before the head, and the names of the tokens' own values and the context."""
    nodes = [_node("Gather", ["table", "input_ids"], ["words"])]
    own = "words"
    if types:
        nodes.append(_node("Gather", ["types", "token_type_ids"], ["kinds"]))
        nodes.append(_node("Add", ["words", "kinds"], ["own"]))
        own = "own"
    nodes += [
        _node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        _node("Unsqueeze", ["mask", "two"], ["mask3"]),
        _node("Mul", [own, "mask3"], ["masked"]),
        _node("ReduceSum", ["masked", "one"], ["total"], keepdims=1),
        _node("ReduceSum", ["mask3", "one"], ["count"], keepdims=1),
        _node("Div", ["total", "count"], ["context"]),
    ]
    if not mates:
        return nodes, own, "context"
    nodes.append(_node("ReduceMean", [own], ["whole"], keepdims=1))
    nodes.append(_node("Add", ["context", "whole"], ["disturbed"]))
    return nodes, own, "disturbed"


def _head(output: str, source: str) -> tuple[list[Any], dict[str, list[str | int]]]:
    """Give the nodes behind the hidden state, and the outputs' names and shapes."""
    token: list[str | int] = ["batch", "seq"]
    pooled = _node("Squeeze", [source, "one"], ["pooled"])
    if output in ("tags", "words"):
        weight, width = ("tags", TAGS.shape[1]) if output == "tags" else ("words_of", len(VOCAB))
        return [_node("MatMul", [HIDDEN_STATE, weight], ["logits"])], {"logits": [*token, width]}
    if output == "span":
        both = _node("MatMul", [HIDDEN_STATE, "span"], ["both"])
        split = _node("Split", ["both"], ["start3", "end3"], axis=2)
        start = _node("Squeeze", ["start3", "two"], ["start_logits"])
        end = _node("Squeeze", ["end3", "two"], ["end_logits"])
        return [both, split, start, end], {"start_logits": token, "end_logits": token}
    if output in ("logits", "score"):
        weight, width = ("weight", 3) if output == "logits" else ("score", 1)
        logits = _node("MatMul", ["pooled", weight], ["logits"])
        return [pooled, logits], {"logits": ["batch", width]}
    outputs: dict[str, list[str | int]] = {HIDDEN_STATE: [*token, HIDDEN]}
    if output == HIDDEN_STATE:
        return [], outputs
    dense = _node("MatMul", ["pooled", "dense"], ["sentence_embedding"])
    return [pooled, dense], {"sentence_embedding": ["batch", DENSE.shape[1]], **outputs}


def write_bundle(
    directory: Path,
    *,
    task: str,
    precisions: tuple[str, ...] = ("fp32",),
    tokenizer: Callable[[Path], None] = write_tokenizer,
    **changes: Any,
) -> Manifest:
    """Write a bundle with one ONNX artifact a precision; ``int8`` is one that minds its mates.

    Args:
        directory: Where to.
        task: Any of the seven.
        precisions: Which artifacts.
        tokenizer: Writes ``tokenizer.json``, of the vocabulary of `tests.tiny`.
        changes: Fields of the manifest, and ``output``, ``types`` and ``sick`` of `write_graph`.
    """
    graph = {name: changes.pop(name) for name in ("output", "types", "sick") if name in changes}
    graph.setdefault("output", GRAPHS[task])
    tokenizer(directory)
    artifacts = []
    for precision in precisions:
        path = "onnx/model.onnx" if precision == "fp32" else "onnx/model_quantized.onnx"
        write_graph(directory / path, mates=precision == "int8", **graph)
        artifacts.append(_artifact(directory, path, precision))
    own = {**FIELDS.get(task, {}), **changes}
    own.setdefault("max_length", 32)
    reader = Tokenizer(directory, special_ids=SPECIAL_IDS)
    pairs = TEXTS[::-1] if own.get("pairs") else None
    encodings = reader.encode(TEXTS, pairs, max_length=own["max_length"])
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


def change_manifest(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Let ``change`` edit what ``edgebert.json`` says, unchecked."""
    path = directory / "edgebert.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


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
