"""The rows of a probe: torch and an engine give the same, in the order of the split."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from compress.data.load import make_split
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from compress.scoring import probe as module
from compress.scoring.probe import (
    engine_rows,
    make_probe,
    sample_places,
    sample_probe,
    sample_values,
    torch_rows,
)
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, VOCAB, bert_config, write_tokenizer

TEXTS = ["good film", "the plot is very dull , not fun .", "bad", "hello world " * 20]
CONTEXTS = ["the good film", "a dull plot " * 12, "fun", "very very bad"]
HEADS = {
    "text-classification": ("SequenceClassification", {"labels": ("a", "b")}),
    "regression": ("SequenceClassification", {}),
    "token-classification": ("TokenClassification", {"labels": ("B-X", "I-X", "O")}),
    "question-answering": ("QuestionAnswering", {}),
    "multiple-choice": ("MultipleChoice", {}),
    "fill-mask": ("MaskedLM", {}),
    "feature-extraction": ("Model", {"pooling": "mean", "normalize": True}),
}


class GraphBackend:
    """Runs what an exporter would get, as an engine."""

    def __init__(self, model, head):
        self.graph = GraphModule(model, head)
        self.batches = []

    def run(self, batch):
        self.batches.append(batch)
        inputs = [torch.from_numpy(getattr(batch, name)) for name in self.graph.input_names]
        with torch.no_grad():
            outputs = self.graph(*inputs)
        return {
            name: output.numpy()
            for name, output in zip(self.graph.output_names, outputs, strict=True)
        }


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


def model_of(task):
    torch.manual_seed(0)
    kind, settings = HEADS[task]
    labels = 2 if task == "question-answering" else len(settings.get("labels", "x"))
    model = getattr(transformers, f"Bert{'For' if kind != 'Model' else ''}{kind}")
    return model(bert_config(num_labels=labels)).eval(), TaskHead(task=task, **settings)


def probe_of(task, head, tokenizer):
    pairs = CONTEXTS if task in ("regression", "question-answering") else None
    choices = [("a", "b"), ("good", "bad", "dull"), ("x", "y"), ("fun", "not fun")]
    questions = ["what ?", "the plot", "", "who"]
    split = make_split(
        "dev",
        "here",
        questions if task == "question-answering" else TEXTS,
        text_pairs=pairs,
        choices=choices if task == "multiple-choice" else None,
    )
    return make_probe(split, head, tokenizer, max_length=24, stride=4, mask_id=4)


@pytest.mark.parametrize("task", HEADS)
@pytest.mark.parametrize("batch_invariant", [True, False])
def test_torch_and_an_engine_give_the_same_rows(task, batch_invariant, tokenizer):
    model, head = model_of(task)
    probe = probe_of(task, head, tokenizer)
    backend = GraphBackend(model, head)
    found = engine_rows(backend, probe, batch_invariant=batch_invariant)
    expected = torch_rows(model, probe)
    assert found.values.shape == expected.values.shape
    assert found.values.dtype == np.float32
    np.testing.assert_allclose(found.values, expected.values, atol=1e-5)
    if not batch_invariant:
        assert {len(batch.input_ids) for batch in backend.batches} == {1}


@pytest.mark.parametrize(
    ("task", "rows", "width"),
    [
        ("text-classification", 4, 2),
        ("regression", 4, 1),
        ("multiple-choice", 9, 1),
        ("feature-extraction", 4, 32),
        ("fill-mask", 4, None),
    ],
)
def test_a_row_of_the_model_has_one_row_of_numbers(task, rows, width, tokenizer):
    model, head = model_of(task)
    values = torch_rows(model, probe_of(task, head, tokenizer)).values
    assert values.shape == (rows, width or model.config.vocab_size)


@pytest.mark.parametrize(
    ("task", "width"), [("token-classification", 3), ("question-answering", 2)]
)
def test_every_token_of_every_window_has_a_row_of_numbers(task, width, tokenizer):
    model, head = model_of(task)
    probe = probe_of(task, head, tokenizer)
    assert len(probe) > len(TEXTS)
    assert torch_rows(model, probe).values.shape == (probe.encoded.lengths.sum(), width)


@pytest.mark.parametrize("task", HEADS)
def test_a_sample_has_the_numbers_of_its_rows(task, tokenizer):
    model, head = model_of(task)
    probe = probe_of(task, head, tokenizer)
    whole = torch_rows(model, probe).values
    sample = torch_rows(model, sample_probe(probe, 3)).values
    np.testing.assert_allclose(sample, sample_values(probe, whole, 3), atol=1e-5)
    assert len(sample_places(len(probe), 3)) == 3


def test_an_engine_without_a_pooled_output_is_pooled_here(tokenizer):
    model, head = model_of("feature-extraction")
    probe = probe_of("feature-extraction", head, tokenizer)
    backend = GraphBackend(model, head)
    run = backend.run
    backend.run = lambda batch: {"last_hidden_state": run(batch)["last_hidden_state"]}
    found = engine_rows(backend, probe, batch_invariant=True).values
    np.testing.assert_allclose(found, torch_rows(model, probe).values, atol=1e-5)


def test_speed_is_counted_in_rows_of_the_model(tokenizer):
    model, head = model_of("token-classification")
    rows = torch_rows(model, probe_of("token-classification", head, tokenizer))
    assert rows.texts_per_s == pytest.approx(rows.runs / rows.seconds)


def test_fill_mask_measures_evenly_spaced_texts_of_a_long_split(tokenizer, monkeypatch, caplog):
    monkeypatch.setattr(module, "MAX_MASKED_TEXTS", 3)
    words = ["good", "bad", "fun", "dull", "film"]
    split = make_split("test", "here", words)
    probe = make_probe(split, TaskHead(task="fill-mask"), tokenizer, max_length=8, mask_id=4)
    assert probe.rows.owners.tolist() == [0, 2, 4]  # the first, the middle and the last
    assert probe.answers.tolist() == [VOCAB.index(word) for word in ("good", "fun", "film")]
    assert (probe.measured, len(probe.split)) == (3, 5)
    assert "here: fill-mask is measured on 3 of 5 texts" in caplog.text


@pytest.mark.parametrize("task", HEADS)
def test_a_short_split_is_measured_whole(task, tokenizer):
    probe = probe_of(task, model_of(task)[1], tokenizer)
    assert probe.measured == len(probe.split)
