"""What is trimmed goes on: exported, taught from, and trimmed from a bundle."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import compress
from compress.models.loading import load_teacher, load_tokenizer
from compress.models.sentence_layout import SentenceLayout, read_layout, write_layout
from tests.compress.steps import distill_settings
from tests.compress.trim_models import write_corpus
from tests.tiny import write_encoder

TEXTS = ["a good film", "the plot is dull", "very bad", "not fun", "hello"] * 4


def trim(folder, model):
    corpus = write_corpus(folder / "corpus.txt", TEXTS)
    output = folder / "trimmed"
    compress.trim(
        compress.TrimConfig(
            model=str(model), corpus=(corpus,), output_dir=output, held_out_ratio=0.0
        )
    )
    return output


@pytest.fixture
def embedder(tmp_path):
    """An embedder with a Dense module behind its pooling, and prompts."""
    from compress.models.dense import Dense

    write_encoder(tmp_path / "embedder")
    layout = SentenceLayout(
        pooling="cls",
        normalize=True,
        dense=torch.nn.Sequential(Dense(32, 8)),
        max_length=16,
        prompts={"query": "hello: "},
    )
    write_layout(tmp_path / "embedder", layout, hidden_size=32)
    return tmp_path / "embedder"


def test_the_sentence_files_come_along(embedder, tmp_path):
    output = trim(tmp_path, embedder)
    before, after = read_layout(embedder), read_layout(output)
    assert (after.pooling, after.normalize, after.max_length) == ("cls", True, 16)
    assert after.prompts == before.prompts
    assert torch.equal(after.dense[0].linear.weight, before.dense[0].linear.weight)


@pytest.mark.onnx
def test_a_trimmed_model_is_exported_and_its_bundle_can_be_trimmed(lab, tmp_path):
    import edgebert

    trimmed = trim(tmp_path, lab.teacher)
    bundle = tmp_path / "bundle"
    compress.export(
        compress.ExportConfig(
            model=str(trimmed),
            train_file=lab.train,
            dev_file=lab.train,
            output_dir=bundle,
            max_length=16,
            backend=("onnx",),
            threads=1,
        )
    )
    lineage = json.loads((bundle / "edgebert.json").read_text())["lineage"]
    assert [entry["step"] for entry in lineage] == ["train", "trim", "export"]
    teacher = load_teacher(lab.teacher, task="text-classification")
    tokenizer = load_tokenizer(lab.teacher, 16)
    with edgebert.Runtime(bundle, backend="onnx", precision="fp32") as runtime:
        for text, result in zip(TEXTS[:5], runtime.classify(TEXTS[:5]), strict=True):
            ids = torch.tensor(tokenizer.encode([text], max_length=16)[0].input_ids)[None]
            with torch.no_grad():
                scores = teacher.model(ids).logits.softmax(-1)[0].numpy()
            found = [result.scores[label] for label in teacher.labels]
            np.testing.assert_allclose(found, scores, atol=1e-5)

    again = tmp_path / "again"
    again.mkdir()
    smaller = load_teacher(trim(again, bundle), task="text-classification")
    assert smaller.labels == teacher.labels
    assert smaller.has_head


def test_a_trimmed_model_teaches(lab, tmp_path):
    trimmed = trim(tmp_path, lab.teacher)
    settings = distill_settings(
        lab, tmp_path / "student", teacher=str(trimmed), max_steps=2, backend=("onnx",)
    )
    report = compress.distill(settings)
    ids = json.loads((trimmed / "config.json").read_text())["vocab_size"]
    student = json.loads((tmp_path / "student" / "config.json").read_text())
    assert student["vocab_size"] == ids
    assert report.rows
