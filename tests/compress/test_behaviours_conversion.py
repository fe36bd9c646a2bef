"""What a checkpoint says of itself is in its bundle: specials, limit, pooling, many labels."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import edgebert
from compress.export import ExportConfig, export
from compress.models.sentence_layout import SentenceLayout, write_layout
from edgebert.formats.manifest import Manifest
from runtimes import BACKENDS
from tests.compress.exports import embedder_config, write_onnx, write_texts
from tests.compress.trim_models import NAMES, texts, write_model
from tests.tiny import bert_config, write_classifier, write_encoder, write_tokenizer

MULTI_LABEL = "multi_label_classification"
SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "pad_token_id")
SHAPE += ("intermediate_size", "max_position_embeddings", "initializer_range")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


def export_classifier(folder: Path, lines: list[str], **changes) -> Manifest:
    """Export ``folder/model``, calibrated and gated on some lines."""
    rows = [json.dumps({"text": line, "label": "ab"[i % 2]}) for i, line in enumerate(lines)]
    (folder / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    data = {"train_file": folder / "rows.jsonl", "dev_file": folder / "rows.jsonl"}
    settings = {"model": str(folder / "model"), "output_dir": folder / "bundle", "threads": 1}
    return export(ExportConfig(**{**data, **settings, "backend": ("onnx",), **changes})).manifest


@pytest.mark.onnx
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Unigram", "BPE"])
def test_specials_and_the_limit_are_those_of_a_checkpoint_with_other_names_for_them(tmp_path, kind):
    """The position table of a RoBERTa has 2 rows more than tokens, and no file says how many."""
    labels = {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}}
    changes = {"max_position_embeddings": 26, "type_vocab_size": 1, **labels}
    write_model(tmp_path / "model", kind, "ForSequenceClassification", **changes)
    settings = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    del settings["model_max_length"]
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    manifest = export_classifier(tmp_path, texts(16, seed=2))
    assert manifest.max_length == 24
    named = ("cls", "sep", "pad", "unk", "mask")
    assert {name: manifest.special_ids[f"{name}_token_id"] for name in named} == {
        name: NAMES[name] for name in named
    }
    lines = ["bado kilu!", "", "mer " * 100]
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "bundle")
    with edgebert.Runtime(tmp_path / "bundle", precision="fp32", threads=1) as runtime:
        batch = runtime.tokenize(lines)
        assert len(runtime.classify(lines)) == 3
    for line, ids, mask in zip(lines, batch.input_ids, batch.attention_mask, strict=True):
        expected = reference(line, truncation=True, max_length=24)["input_ids"]
        assert ids[mask == 1].tolist() == expected
        assert (expected[0], expected[-1]) == (NAMES["cls"], NAMES["sep"])


@pytest.mark.onnx
def test_a_checkpoint_pooled_by_its_first_token_stays_so(tmp_path):
    model = write_encoder(tmp_path / "model", hidden_size=64, intermediate_size=128)
    write_texts(tmp_path / "texts.tsv", rows=40)
    config = embedder_config(tmp_path, pooling=None, normalize=None)
    write_layout(tmp_path / "model", SentenceLayout(pooling="cls", normalize=False), hidden_size=64)
    assert export(config).manifest.pooling == "cls"
    text = "the good film , a dull plot"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
    with edgebert.Runtime(tmp_path / "bundle", precision="fp32", threads=1) as runtime:
        (found,) = runtime.encode([text])
    np.testing.assert_allclose(found, hidden[0], atol=1e-5)
    assert np.abs(found - hidden.mean(axis=0)).max() > 0.1


@pytest.mark.slow  # seconds a conversion
def test_many_labels_have_the_probabilities_of_torch_on_every_engine(tmp_path):
    names = ("joy", "anger", "greeting")
    changes = {"initializer_range": 0.2, "problem_type": MULTI_LABEL}
    sizes = {"hidden_size": 64, "intermediate_size": 128}
    model = write_classifier(tmp_path / "model", labels=names, **sizes, **changes)
    lines = ["the good film", "hello world", "a very dull plot !", "fun"] * 10
    rows = [{"text": line, "label": [names[i % 3]]} for i, line in enumerate(lines)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    data = {"train_file": tmp_path / "rows.jsonl", "dev_file": tmp_path / "rows.jsonl"}
    bundle = tmp_path / "bundle"
    export(
        ExportConfig(
            model=str(tmp_path / "model"),
            output_dir=bundle,
            problem_type=MULTI_LABEL,
            max_length=16,
            threads=1,
            **data,
        )
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(bundle)
    with torch.no_grad():
        given = tokenizer(lines[:4], padding=True, return_tensors="pt")
        expected = model(**given).logits.sigmoid().numpy()
    assert {one.backend for one in Manifest.load(bundle).artifacts} == set(BACKENDS)
    for backend in BACKENDS:
        with edgebert.Runtime(bundle, backend, "fp32", threads=1) as runtime:
            found = runtime.classify(lines[:4])
        scores = [[one.scores[name] for name in names] for one in found]
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.onnx
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Bert", {}),
        # a mask of its own for attention within a window, added to that of the padding
        ("ModernBert", {"cls_token_id": 2, "sep_token_id": 3}),
    ],
)
def test_a_graph_turned_into_16_bits_gives_no_nan_at_any_length(tmp_path, family, changes):
    """As others do with our file: a mask that is infinite there must not meet a 0 or itself."""
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    torch.manual_seed(0)
    shape = bert_config(initializer_range=0.1).to_dict() | changes
    shape = {name: shape[name] for name in (*SHAPE, *changes)}
    config = getattr(transformers, f"{family}Config")(**shape)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    write_onnx(model, tmp_path / "m.onnx", "text-classification")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it tells each number that it rounds
        half = float16.convert_float_to_float16(onnx.load(tmp_path / "m.onnx"), keep_io_types=True)
    session = ort.InferenceSession(half.SerializeToString(), providers=["CPUExecutionProvider"])
    for length in (1, 2, 7, 32, 128, 512):
        mask = (torch.arange(length) < torch.tensor([[length], [(length + 1) // 2]])).long()
        ids = (torch.arange(2 * length).reshape(2, length) % 70 + 5) * mask
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
        with torch.no_grad():
            expected = model(input_ids=ids, attention_mask=mask).logits.numpy()
        names = [node.name for node in session.get_inputs()]
        (found,) = session.run(None, {name: given[name].numpy() for name in names})
        np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.onnx
def test_a_checkpoint_in_half_precision_becomes_the_fp32_of_its_numbers(tmp_path):
    labels = {0: "a", 1: "b"}
    write_tokenizer(tmp_path / "model")
    torch.manual_seed(0)
    config = bert_config(
        id2label=labels, label2id={"a": 0, "b": 1}, hidden_size=64, intermediate_size=128
    )
    model = transformers.BertForSequenceClassification(config).eval().half()
    model.save_pretrained(tmp_path / "model")
    lines = ["the good film", "a very dull plot !", "fun " * 200]
    export_classifier(tmp_path, lines * 4, max_length=64)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "bundle")
    given = tokenizer(lines, padding=True, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        expected = model.float()(**given).logits.softmax(-1).numpy()
    with edgebert.Runtime(tmp_path / "bundle", precision="fp32", threads=1) as runtime:
        found = [[one.scores["a"], one.scores["b"]] for one in runtime.classify(lines)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
