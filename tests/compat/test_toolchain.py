"""The toolchain on the releases of transformers that optimum allows, with optimum's exporter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import edgebert
from tests.compat.conftest import needs
from tests.tiny import VOCAB, write_classifier, write_sentiment, write_tokenizer

needs("torch", "transformers", "onnxruntime", "optimum.exporters.onnx")


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.tsv"
    write_sentiment(path)
    return path


def test_a_student_is_trained_distilled_and_shipped(tmp_path, texts):
    from compress.distill import DistillConfig, distill
    from compress.train import TrainConfig, train

    write_classifier(tmp_path / "model")
    data = {"train_file": texts, "dev_file": texts}
    short = {"max_length": 16, "device": "cpu", "threads": 1}
    quick = {"num_train_epochs": 4, "learning_rate": 3e-3, "per_device_train_batch_size": 8}
    teacher, bundle = tmp_path / "teacher", tmp_path / "bundle"
    model = str(tmp_path / "model")
    train(TrainConfig(model=model, output_dir=teacher, **data, **short, **quick))
    distill(
        DistillConfig(
            teacher=str(teacher),
            student="L=1",
            output_dir=bundle,
            backend=("onnx",),
            **data,
            **short,
        )
    )
    with edgebert.Runtime(bundle, self_test="always") as runtime:
        assert len(runtime.classify(["the good film"])) == 1


def write_mpnet(directory: Path, *, head: bool) -> None:
    """Write an encoder of a family that is not among ours."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.MPNetConfig(
        vocab_size=len(VOCAB),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=66,
        pad_token_id=0,
        initializer_range=0.2,
        id2label={0: "bad", 1: "good"},
        label2id={"bad": 0, "good": 1},
    )
    kind = "ForSequenceClassification" if head else "Model"
    getattr(transformers, f"MPNet{kind}")(config).eval().save_pretrained(directory)
    write_tokenizer(directory)


@pytest.fixture(scope="module")
def mpnet(tmp_path_factory, texts) -> Path:
    """Export a classifier by optimum; give the folder with ``model`` and ``bundle``."""
    from compress.export import export

    folder = tmp_path_factory.mktemp("mpnet")
    write_mpnet(folder / "model", head=True)
    export(export_config(folder, texts, exporter="optimum"))
    return folder


def export_config(folder: Path, texts: Path, **changes):
    from compress.export import ExportConfig

    return ExportConfig(
        model=str(folder / "model"),
        output_dir=folder / "bundle",
        train_file=texts,
        dev_file=texts,
        max_length=16,
        threads=1,
        **{"task": "text-classification", **changes},
    )


def test_an_architecture_that_ours_does_not_know_is_refused_with_the_way_out(tmp_path, texts):
    from compress.export import export
    from edgebert.errors import ModelError

    write_mpnet(tmp_path / "model", head=True)
    with pytest.raises(ModelError, match=r"'mpnet'.*--exporter optimum"):
        export(export_config(tmp_path, texts, backend=("onnx",)))


def test_optimum_exports_it_and_the_same_gates_hold(mpnet):
    report = json.loads((mpnet / "bundle" / "report.json").read_text())
    rows = {row["precision"]: row for row in report["rows"]}
    assert rows["fp32"]["gate"]["passed"]
    assert rows["fp32"]["parity"]["max_abs"] <= 1e-4
    manifest = json.loads((mpnet / "bundle" / "edgebert.json").read_text())
    assert manifest["artifacts"][0]["recipe"]["exporter"].startswith("optimum-onnx ")


def test_its_bundle_gives_what_torch_gives(mpnet):
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(mpnet / "model").eval()
    with edgebert.Runtime(mpnet / "bundle", precision="fp32", self_test="always") as runtime:
        batch = runtime.tokenize(["the good film", "a dull plot, very bad !"])
        found = runtime.run(batch)["logits"]
    with torch.no_grad():
        logits = model(
            input_ids=torch.as_tensor(batch.input_ids),
            attention_mask=torch.as_tensor(batch.attention_mask),
        ).logits
    np.testing.assert_allclose(found, logits.numpy(), atol=1e-4)


def test_an_embedder_of_optimum_is_pooled_behind_the_graph(tmp_path, texts):
    import torch
    import transformers

    from compress.export import export

    write_mpnet(tmp_path / "model", head=False)
    vectors = {"task": "feature-extraction", "pooling": "mean", "normalize": False}
    export(export_config(tmp_path, texts, exporter="optimum", **vectors))
    model = transformers.AutoModel.from_pretrained(tmp_path / "model").eval()
    with edgebert.Runtime(tmp_path / "bundle", precision="fp32", self_test="always") as runtime:
        ids = torch.as_tensor(runtime.tokenize(["the good film"]).input_ids)
        found = runtime.encode(["the good film"])[0]
    with torch.no_grad():
        hidden = model(input_ids=ids).last_hidden_state[0]
    np.testing.assert_allclose(found, hidden.mean(dim=0).numpy(), atol=1e-4)
