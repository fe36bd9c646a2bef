"""Bundles of older manifest formats open and give what they gave."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import edgebert
from edgebert.files import sha256_file
from edgebert.formats.manifest import FORMAT_VERSION, Manifest
from tests.edgebert.bundles import LABELS, hidden_by_hand, logits_by_hand, write_graph
from tests.tiny import write_tokenizer

pytestmark = pytest.mark.onnx

IDS = [2, 57, 59, 3]  # [CLS] good film [SEP]

# What version 1 wrote, field by field; a name in angle brackets is filled in below.
VERSION_1 = """{
  "task": "<task>",
  "max_length": 32,
  "hidden_size": 8,
  "special_ids": {"pad_token_id": 0, "unk_token_id": 1, "cls_token_id": 2, "sep_token_id": 3,
                  "mask_token_id": 4},
  "files": [{"path": "tokenizer.json", "sha256": "<tokenizer>", "size_bytes": <tokenizer bytes>}],
  "artifacts": [{
    "backend": "onnx",
    "precision": "fp32",
    "files": [{"path": "onnx/model.onnx", "sha256": "<model>", "size_bytes": <model bytes>}],
    "recipe": {"exporter": "torch.onnx legacy, eager attention", "opset": 17},
    "gated_on": "Intel(R) Xeon(R) Processor",
    "min_engine": "onnxruntime 1.15",
    "batch_invariant": true,
    "golden": [<golden>],
    "tolerance": 0.0001
  }],
  "golden": {"texts": ["good film"], "text_pairs": null, "input_ids": [[2, 57, 59, 3]]},
  "labels": <labels>,
  "problem_type": <problem type>,
  "pairs": false,
  "pooling": <pooling>,
  "normalize": <normalize>,
  "prompts": {},
  "on_long": "truncate",
  "int8_scale": null,
  "lineage": [{"step": "export", "config": {}, "seed": 42, "versions": {"edgebert": "0.1.0"}}],
  "format_version": 1
}
"""


def unit_vector() -> np.ndarray:
    vector = hidden_by_hand(IDS).mean(axis=0)
    return vector / np.linalg.norm(vector)


def write_version_1(directory: Path, task: str) -> Path:
    embedder = task == "feature-extraction"
    write_tokenizer(directory)
    write_graph(directory / "onnx/model.onnx", output="last_hidden_state" if embedder else "logits")
    golden = unit_vector() if embedder else logits_by_hand(IDS)
    values = {
        "task": task,
        "golden": json.dumps(golden.tolist()),
        "labels": json.dumps([] if embedder else LABELS),
        "problem type": "null" if embedder else '"single_label_classification"',
        "pooling": '"mean"' if embedder else "null",
        "normalize": json.dumps(embedder),
    }
    for name, path in (("tokenizer", "tokenizer.json"), ("model", "onnx/model.onnx")):
        values[name] = sha256_file(directory / path)
        values[f"{name} bytes"] = str((directory / path).stat().st_size)
    text = VERSION_1
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    (directory / "edgebert.json").write_text(text)
    return directory


def test_a_classifier_of_version_1_passes_its_self_test_and_gives_the_same(tmp_path):
    write_version_1(tmp_path / "bundle", "text-classification")
    runtime = edgebert.Runtime(tmp_path / "bundle", self_test="always")
    (found,) = runtime.classify(["good film"])
    logits = logits_by_hand(IDS)
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [found.scores[label] for label in LABELS] == pytest.approx(expected, abs=1e-5)


def test_an_embedder_of_version_1_passes_its_self_test_and_gives_the_same(tmp_path):
    write_version_1(tmp_path / "bundle", "feature-extraction")
    runtime = edgebert.Runtime(tmp_path / "bundle", self_test="always")
    np.testing.assert_allclose(runtime.encode(["good film"])[0], unit_vector(), atol=1e-5)


def test_what_version_1_lacks_means_what_it_meant(tmp_path):
    manifest = Manifest.load(write_version_1(tmp_path / "bundle", "feature-extraction"))
    found = manifest.pooling_layers, manifest.embedding_size, manifest.stride
    assert found == (1, None, None)


def test_a_manifest_of_version_1_is_saved_as_the_newest(tmp_path):
    directory = write_version_1(tmp_path / "bundle", "text-classification")
    Manifest.load(directory).save(directory)
    assert json.loads((directory / "edgebert.json").read_text())["format_version"] == FORMAT_VERSION
