"""Every task becomes a bundle that gives what torch gives, on every engine that is asked for."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import edgebert
from compress.artifacts.gate import torch_outputs
from compress.export import ExportConfig, export
from compress.models.dense import Dense
from compress.models.loading import load_teacher
from compress.models.sentence_layout import SentenceLayout, write_layout
from compress.models.task_head import TaskHead
from edgebert.formats.manifest import Manifest
from edgebert.types import Batch
from runtimes import BACKENDS
from tests.compress.exports import embedder_config
from tests.compress.tiny_tasks import write_task
from tests.tiny import SPECIAL_IDS, bert_config, write_encoder, write_tokenizer

HEADS = {
    "regression": ("SequenceClassification", ["score"]),
    "token-classification": ("TokenClassification", ["B-GREETING", "I-GREETING", "O"]),
    "question-answering": ("QuestionAnswering", ["a", "b"]),
    "multiple-choice": ("MultipleChoice", ["a", "b"]),
    "fill-mask": ("MaskedLM", ["a", "b"]),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


def export_task(folder: Path, task: str, backend=("onnx",), **changes) -> Path:
    """Export a random model of a task; give the bundle."""
    kind, labels = HEADS[task]
    torch.manual_seed(0)
    config = bert_config(
        hidden_size=64,
        intermediate_size=128,
        initializer_range=0.2,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    write_tokenizer(folder / "model")
    getattr(transformers, f"BertFor{kind}")(config).eval().save_pretrained(folder / "model")
    data = write_task(folder, task)
    settings = {
        "model": str(folder / "model"),
        "task": task,
        "train_file": data,
        "dev_file": data,
        "output_dir": folder / "bundle",
        "max_length": 32,
        "threads": 1,
        "backend": backend,
    }
    export(ExportConfig(**{**settings, **changes}))
    return folder / "bundle"


def a_batch() -> Batch:
    ids = np.array([[2, 57, 58, 3, 59, 3, 0, 0], [2, 60, 61, 62, 63, 3, 64, 3]])
    types = np.array([[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]])
    return Batch(ids, (ids != 0).astype(np.int64), types, np.zeros(2, dtype=np.int64))


def assert_outputs_are_torchs(bundle: Path, task: str, backend: str) -> None:
    head, batch = TaskHead(task=task), a_batch()
    expected = torch_outputs(load_teacher(bundle, task=task).model, batch, head)
    settings = {"backend": backend, "precision": "fp32", "threads": 1}
    with edgebert.Runtime(bundle, self_test="always", **settings) as runtime:
        found = runtime.run(batch)
    real = batch.attention_mask == 1
    assert set(found) == set(expected)
    for name, values in found.items():
        keep = real if head.has_token_axis(name) else slice(None)
        np.testing.assert_allclose(values[keep], expected[name][keep], atol=1e-4)


@pytest.fixture(scope="module")
def bundle_of(tmp_path_factory):
    """Export a task to ONNX once, when a test asks for it."""
    made = {}

    def of(task):
        if task not in made:
            made[task] = export_task(tmp_path_factory.mktemp(task), task, doc_stride=8)
        return made[task]

    return of


@pytest.mark.onnx
@pytest.mark.parametrize("task", HEADS)
def test_a_bundle_of_every_task_gives_torchs_outputs(bundle_of, task):
    assert_outputs_are_torchs(bundle_of(task), task, "onnx")


@pytest.mark.slow  # seconds a conversion; tests/engines has the other tasks
def test_one_bundle_gives_torchs_outputs_on_every_engine(tmp_path):
    task = "question-answering"
    bundle = export_task(tmp_path, task, backend=tuple(BACKENDS))
    assert {item.backend for item in Manifest.load(bundle).artifacts} == set(BACKENDS)
    for backend in BACKENDS:
        assert_outputs_are_torchs(bundle, task, backend)


@pytest.mark.onnx
def test_a_bundle_of_questions_takes_pairs_and_windows(bundle_of):
    manifest = Manifest.load(bundle_of("question-answering"))
    assert (manifest.pairs, manifest.on_long, manifest.stride) == (True, "window", 8)
    assert manifest.no_answer_threshold is None
    assert manifest.golden.text_pairs is not None
    assert manifest.golden.input_ids[0].count(SPECIAL_IDS["sep_token_id"]) == 2


@pytest.mark.onnx
def test_questions_without_an_answer_calibrate_a_threshold(tmp_path):
    data = tmp_path / "questions.jsonl"
    rows = write_task(tmp_path, "question-answering").read_text().splitlines()
    nothing = '{"question": "hello ?", "context": "the plot", "answers": []}'
    data.write_text("\n".join([*rows, *[nothing] * 10]) + "\n")
    bundle = export_task(tmp_path, "question-answering", train_file=data, dev_file=data)
    assert Manifest.load(bundle).no_answer_threshold is not None


@pytest.mark.onnx
def test_what_a_bundle_says_of_answers_is_kept_when_it_is_exported_again(bundle_of, tmp_path):
    bundle = shutil.copytree(bundle_of("question-answering"), tmp_path / "earlier")
    replace(Manifest.load(bundle), max_answer_length=5).save(bundle)
    again = export_task(tmp_path, "question-answering", model=str(bundle))
    manifest = Manifest.load(again)
    assert (manifest.max_answer_length, manifest.stride) == (5, 8)


@pytest.mark.onnx
def test_golden_choices_are_prompts_each_with_one_of_its_choices(bundle_of):
    manifest = Manifest.load(bundle_of("multiple-choice"))
    assert manifest.pairs
    assert manifest.golden.text_pairs is not None
    assert {len(row) for row in manifest.artifacts[0].golden} == {1}


@pytest.mark.onnx
def test_a_bundle_of_tags_has_their_names_and_goldens_of_each_token(bundle_of):
    bundle = bundle_of("token-classification")
    manifest = Manifest.load(bundle)
    assert (manifest.labels, manifest.on_long) == (("B-GREETING", "I-GREETING", "O"), "window")
    golden = manifest.golden
    assert len(golden.texts) <= 6
    for ids, row in zip(golden.input_ids, manifest.artifacts[0].golden, strict=True):
        assert len(row) == 3 * len(ids)
    config = transformers.AutoConfig.from_pretrained(bundle)
    assert config.id2label == {0: "B-GREETING", 1: "I-GREETING", 2: "O"}


@pytest.mark.onnx
def test_an_embedder_with_dense_and_averaged_layers_is_that_of_sentence_transformers(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    config = embedder_config(tmp_path, pooling=None, normalize=None)
    write_encoder(tmp_path / "model", hidden_size=64, intermediate_size=128)
    torch.manual_seed(1)
    dense = torch.nn.Sequential(Dense(64, 24, activation="Tanh"))
    layout = SentenceLayout(pooling="mean", normalize=True, pooling_layers=2, dense=dense)
    write_layout(tmp_path / "model", layout, hidden_size=64, num_hidden_layers=2)
    manifest = export(config).manifest
    assert (manifest.embedding_size, manifest.pooling_layers, len(manifest.int8_scale)) == (
        *(24, 2, 24),
    )
    texts = ["the good film", "a very bad plot !", "hello world " * 20]
    theirs = sentence_transformers.SentenceTransformer(
        str(tmp_path / "bundle"), device="cpu"
    ).encode(texts)
    with edgebert.Runtime(tmp_path / "bundle", precision="fp32", threads=1) as runtime:
        np.testing.assert_allclose(runtime.encode(texts), theirs, atol=1e-5)


@pytest.mark.onnx
@pytest.mark.parametrize("task", HEADS)
def test_the_checkpoint_of_a_bundle_opens_in_transformers(bundle_of, task):
    auto = getattr(transformers, f"AutoModelFor{HEADS[task][0]}")
    model, info = auto.from_pretrained(bundle_of(task), output_loading_info=True)
    assert not info["missing_keys"]
    assert not model.training
