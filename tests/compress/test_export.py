"""A model becomes a bundle that every reader opens, or nothing is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import edgebert
from compress.bundles.golden import ODD_TEXT
from compress.export import ExportConfig, export
from compress.report import load_report
from compress.scoring import probe
from edgebert.formats.manifest import Manifest
from tests.compress.exports import embedder_config
from tests.tiny import SPECIAL_IDS, WORDS, write_classifier, write_sentiment

TEXTS = ["the good film", "a very bad plot !", "hello world " * 40, "dull", ODD_TEXT]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A two-layer classifier that has learnt the sentiment rows, in seconds."""
    folder = tmp_path_factory.mktemp("trained")
    model = write_classifier(folder / "model", hidden_size=64, intermediate_size=128)
    write_sentiment(folder / "train.tsv", rows=200)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    rows = [line.split("\t") for line in (folder / "train.tsv").read_text().splitlines()[1:]]
    batch = tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")
    targets = torch.tensor([("bad", "good").index(label) for _, label in rows])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(model(**batch).logits, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder / "model")
    return folder


@pytest.fixture(scope="module")
def classifier_bundle(trained):
    config = ExportConfig(
        model=str(trained / "model"),
        output_dir=trained / "bundle",
        train_file=trained / "train.tsv",
        max_length=32,
        threads=1,
        backend=("onnx",),
    )
    return export(config)


@pytest.fixture(scope="module")
def embedder_bundle(tmp_path_factory):
    return export(embedder_config(tmp_path_factory.mktemp("embedder")))


def test_the_bundle_has_the_files_of_the_design(classifier_bundle):
    names = {
        str(path.relative_to(classifier_bundle.output_dir))
        for path in classifier_bundle.output_dir.rglob("*")
    }
    assert {
        "edgebert.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "onnx/model.onnx",
        "onnx/model_quantized.onnx",
        "report.json",
        "report.html",
        "README.md",
    } <= names


def test_both_artifacts_passed_and_int8_is_smaller(classifier_bundle):
    fp32, int8 = classifier_bundle.rows
    assert (fp32.precision, int8.precision) == ("fp32", "int8")
    assert fp32.gate.passed
    assert int8.gate.passed
    assert int8.size_bytes < fp32.size_bytes
    assert classifier_bundle.refused == ()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_runtime_gives_the_labels_of_the_torch_model(classifier_bundle, precision):
    folder = classifier_bundle.output_dir
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    texts = ["the good film", "the bad film", "the fun film 3", "the dull film not a"]
    with torch.no_grad():
        logits = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    expected = [model.config.id2label[int(i)] for i in logits.argmax(dim=1)]
    with edgebert.Runtime(folder, precision=precision, self_test="always", threads=1) as runtime:
        found = runtime.classify(texts)
    assert [one.label for one in found] == expected == ["good", "bad", "good", "bad"]
    if precision == "fp32":
        probability = logits.softmax(dim=1).max(dim=1).values
        np.testing.assert_allclose([one.score for one in found], probability, atol=1e-5)


def test_a_score_is_of_the_test_split_where_there_is_one(trained, tmp_path):
    config = ExportConfig(
        model=str(trained / "model"),
        output_dir=tmp_path / "b",
        train_file=trained / "train.tsv",
        test_file=trained / "train.tsv",
        threads=1,
        max_length=32,
        backend=("onnx",),
    )
    result = export(config)
    report = json.loads((tmp_path / "b" / "report.json").read_text())
    assert (result.split, report["split"], report["gate"]["split"]) == ("test", "test", "dev")
    assert report["data"]["test"]["rows"] == 200


def test_the_report_has_one_row_an_artifact_with_all_that_was_measured(classifier_bundle):
    report = json.loads((classifier_bundle.output_dir / "report.json").read_text())
    assert report["metric"] == "accuracy"
    assert report["teacher"]["size_bytes"] == 4 * report["teacher"]["params"]
    for row in report["rows"]:
        assert row["retention"] == pytest.approx(row["score"] / report["teacher"]["score"])
        assert row["parity"]["max_abs"] >= 0
        assert row["latency_ms"]["b1_s32"]["p50"] > 0
        assert row["speedup_vs_teacher"] > 0
        assert row["texts_per_s"] > 0
    assert load_report(classifier_bundle.output_dir).passed


def test_the_report_has_the_recall_of_every_class_for_every_artifact(classifier_bundle):
    report = json.loads((classifier_bundle.output_dir / "report.json").read_text())
    for row in report["rows"]:
        recalls = {one["label"]: one["recall"] for one in row["per_class"]}
        supports = [one["support"] for one in row["per_class"]]
        assert recalls.keys() == {"bad", "good"}
        mean = np.average(list(recalls.values()), weights=supports)
        assert mean == pytest.approx(row["score"])  # accuracy, by classes


def test_the_vectors_are_those_of_torch_and_of_sentence_transformers(embedder_bundle):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = str(embedder_bundle.output_dir)
    theirs = sentence_transformers.SentenceTransformer(folder, device="cpu").encode(TEXTS)
    with edgebert.Runtime(folder, precision="fp32", threads=1) as runtime:
        ours = runtime.encode(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_golden_texts_reach_from_the_shortest_to_the_longest_and_one_is_odd(embedder_bundle):
    golden = embedder_bundle.manifest.golden
    lengths = [len(text) for text in golden.texts[:-1]]
    assert len(golden.texts) <= 16
    assert lengths == sorted(lengths)
    assert golden.texts[-1] == ODD_TEXT


def test_golden_outputs_are_those_of_each_text_alone(embedder_bundle):
    artifact = embedder_bundle.manifest.artifacts[0]
    texts = embedder_bundle.manifest.golden.texts
    with edgebert.Runtime(embedder_bundle.output_dir, precision="fp32", threads=1) as runtime:
        alone = np.concatenate([runtime.encode([text]) for text in texts])
    np.testing.assert_allclose(alone, np.array(artifact.golden), atol=1e-5)


def test_a_vector_in_int8_keeps_its_direction(embedder_bundle):
    with edgebert.Runtime(embedder_bundle.output_dir, precision="fp32", threads=1) as runtime:
        floats = runtime.encode(WORDS)
        bytes_ = runtime.encode(WORDS, dtype="int8")
    restored = bytes_ * np.array(embedder_bundle.manifest.int8_scale)
    restored /= np.linalg.norm(restored, axis=1, keepdims=True)
    assert (restored * floats).sum(axis=1).min() > 0.999


def test_int8_that_depends_on_batch_mates_is_marked_so(embedder_bundle):
    fp32, int8 = embedder_bundle.manifest.artifacts
    assert fp32.batch_invariant
    assert not int8.batch_invariant


def test_padding_and_truncation_of_the_checkpoint_do_not_go_into_the_bundle(tmp_path):
    config = embedder_config(tmp_path)
    path = tmp_path / "model" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["truncation"] = {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    path.write_text(json.dumps(tokenizer))
    export(config)
    written = json.loads((tmp_path / "bundle" / "tokenizer.json").read_text())
    assert written["truncation"] is None
    assert written["padding"] is None


def test_the_lineage_of_a_bundle_goes_on_when_it_is_exported_again(embedder_bundle, tmp_path):
    folder = embedder_bundle.output_dir
    config = embedder_config(
        folder.parent,
        model=str(folder),
        output_dir=tmp_path / "again",
        pooling=None,
        normalize=None,
    )
    export(config)
    manifest = Manifest.load(tmp_path / "again")
    assert [step["step"] for step in manifest.lineage] == ["export", "export"]
    assert (manifest.pooling, manifest.normalize, manifest.max_length) == ("mean", True, 64)


def test_pairs_go_through_the_bundle_as_pairs(tmp_path):
    write_classifier(tmp_path / "model", hidden_size=64, intermediate_size=128)
    rows = [f"the good film\ta {w}\t{'good' if i % 2 else 'bad'}" for i, w in enumerate(WORDS * 4)]
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\n" + "\n".join(rows) + "\n")
    config = ExportConfig(
        model=str(tmp_path / "model"),
        output_dir=tmp_path / "b",
        train_file=tmp_path / "pairs.tsv",
        text_column="sentence1",
        text_pair_column="sentence2",
        max_length=32,
        threads=1,
        backend=("onnx",),
    )
    export(config)
    manifest = Manifest.load(tmp_path / "b")
    assert manifest.pairs
    assert manifest.golden.text_pairs is not None
    assert manifest.golden.input_ids[0].count(SPECIAL_IDS["sep_token_id"]) == 2


def test_fill_mask_is_gated_by_masked_tokens_and_says_of_how_many_texts(tmp_path, monkeypatch):
    from tests.tiny import bert_config, write_tokenizer

    monkeypatch.setattr(probe, "MAX_MASKED_TEXTS", 50)
    torch.manual_seed(0)
    write_tokenizer(tmp_path / "model")
    config = bert_config(hidden_size=64, intermediate_size=128)
    transformers.BertForMaskedLM(config).eval().save_pretrained(tmp_path / "model")
    settings = embedder_config(tmp_path / "other", model=str(tmp_path / "model"))
    result = export(
        replace(
            settings,
            task="fill-mask",
            pooling=None,
            normalize=None,
            output_dir=tmp_path / "b",
        )
    )
    assert result.metric == "accuracy"
    assert result.rows[0].gate.passed
    report = load_report(tmp_path / "b")
    assert (report.data["dev"].rows, report.data["dev"].measured) == (120, 50)
    assert report.notes[0] == "accuracy on dev is of 50 of 120 texts"


def test_a_busy_machine_is_told_in_the_notes(classifier_bundle):
    busy, quiet = (replace(classifier_bundle, core_share=share) for share in (0.4, 1.0))
    assert "40% of a core" in busy.notes[0]
    assert quiet.notes == ()
