"""Directories without an ``edgebert.json``, as other exporters write them, with models by hand."""

from __future__ import annotations

import json
from pathlib import Path

from tests.edgebert.bundles import HIDDEN, LABELS, TAG_LABELS, write_graph
from tests.tiny import write_tokenizer

CLASSES = {
    "logits": "BertForSequenceClassification",
    "score": "BertForSequenceClassification",
    "tags": "BertForTokenClassification",
    "words": "BertForMaskedLM",
    "span": "BertForQuestionAnswering",
    "last_hidden_state": "BertModel",
    "sentence_embedding": "BertModel",
}
MODULES = ("Transformer", "Pooling", "Normalize")
IDS = [2, 57, 59, 3]  # [CLS] good film [SEP]


def write_config(directory: Path, **changes) -> None:
    config = {"model_type": "bert", "hidden_size": HIDDEN, "max_position_embeddings": 32, **changes}
    (directory / "config.json").write_text(json.dumps(config))


def write_foreign(
    directory: Path, *, output: str, path: str = "model.onnx", mates: bool = False, **changes
) -> Path:
    """Write what ``optimum-cli export onnx`` leaves, with a model of `tests.edgebert.bundles`."""
    write_tokenizer(directory)
    write_graph(directory / path, output=output, mates=mates)
    config = {"architectures": [CLASSES[output]], **changes}
    if output in ("logits", "tags") and "id2label" not in config:
        config["id2label"] = dict(enumerate(LABELS if output == "logits" else TAG_LABELS))
    write_config(directory, **config)
    return directory


def write_modules(directory: Path, *kinds: str, **pooling) -> None:
    modules = [
        {"idx": i, "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.x.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
