"""Every method and every task, from a teacher of two layers to a bundle that runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import compress
import edgebert
from compress.report import load_report
from edgebert.errors import ModelError
from tests.compress.steps import distill_settings
from tests.tiny import WORDS

TEXTS = ["the good film", "the dull film very 3"]


@pytest.mark.parametrize(("method", "phases", "terms"), [
    ("logits", ["prediction"], {"soft"}),
    ("tinybert", ["intermediate", "prediction"], {"soft"}),
    ("distilbert", ["prediction"], {"soft", "cosine"}),
    ("minilm", ["relations", "prediction"], {"soft"}),
])  # fmt: skip
def test_a_classifier_of_every_method_runs_from_its_bundle(lab, tmp_path, method, phases, terms):
    report = compress.distill(
        distill_settings(lab, tmp_path / "b", method=method, num_train_epochs=12)
    )
    assert [phase.name for phase in report.phases] == phases
    assert terms <= set(report.phases[-1].terms)
    assert report.student.method == method
    with edgebert.Runtime(tmp_path / "b", threads=1) as runtime:
        assert runtime.info.labels == ("bad", "good")
        assert [result.label for result in runtime.classify(TEXTS)] == ["good", "bad"]


@pytest.mark.parametrize("method", ["tinybert", "minilm"])
def test_the_first_phase_reports_losses_alone_and_says_why(lab, tmp_path, method):
    compress.distill(distill_settings(lab, tmp_path / "b", method=method))
    first, last = load_report(tmp_path / "b").phases
    assert first.scores == ()
    assert "losses only" in first.note
    assert len(last.scores) == 2  # one an epoch


def test_a_student_of_another_width_starts_projected(lab, tmp_path):
    report = compress.distill(distill_settings(lab, tmp_path / "b", student="L=1,H=16,A=4,I=32"))
    assert report.student.init == "projected"
    assert report.student.architecture["hidden_size"] == 16


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def topics(rows=80):
    """Texts with any of two topics: ``fun`` has the label joy, ``hello`` the label greeting."""
    for i in range(rows):
        words = [WORDS[5 + i % 3], *(["fun"] if i % 2 else []), *(["hello"] if i // 2 % 2 else [])]
        labels = [*(["joy"] if i % 2 else []), *(["greeting"] if i // 2 % 2 else [])]
        yield {"text": " ".join([*words, str(i % 10)]), "label": labels}


@pytest.fixture(scope="module")
def many_labels(lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    path = write_rows(folder / "train.jsonl", topics())
    config = distill_settings(
        lab,
        folder / "b",
        teacher=str(lab.encoder),
        train_file=path,
        dev_file=path,
        problem_type="multi_label_classification",
        teacher_num_train_epochs=8,
        num_train_epochs=16,
        hard_weight=0.5,
    )
    compress.distill(config)
    return folder / "b"


def test_many_labels_a_text_go_through_the_bundle(many_labels):
    assert load_report(many_labels).metric == "micro_f1"
    with edgebert.Runtime(many_labels, threads=1) as runtime:
        found = runtime.classify(["not fun hello 7", "not fun 1", "very 4"])
    assert [set(result.labels) for result in found] == [{"joy", "greeting"}, {"joy"}, set()]


def test_many_labels_have_the_probabilities_of_the_torch_student(many_labels):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    text = "very fun 2"
    model = AutoModelForSequenceClassification.from_pretrained(many_labels)
    tokenizer = AutoTokenizer.from_pretrained(many_labels)
    with torch.no_grad():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    assert model.config.problem_type == "multi_label_classification"
    with edgebert.Runtime(many_labels, precision="fp32", threads=1) as runtime:
        scores = runtime.classify([text])[0].scores
    expected = {model.config.id2label[i]: 1 / (1 + np.exp(-float(x))) for i, x in enumerate(logits)}
    assert scores == pytest.approx(expected, abs=1e-5)


def test_pairs_are_learned_from_both_texts_and_run_as_pairs(lab, tmp_path):
    rows = [
        {"sentence1": f"the {a} film {i % 10}", "sentence2": f"the {b} plot", "label": b}
        for i in range(30)
        for a in ("fun", "dull")
        for b in ("good", "bad")
    ]
    path = write_rows(tmp_path / "pairs.jsonl", rows)
    config = distill_settings(
        lab,
        tmp_path / "b",
        teacher=str(lab.encoder),
        train_file=path,
        dev_file=path,
        num_train_epochs=8,
    )
    report = compress.distill(config)
    assert (report.teacher.score, report.rows[0].score) == (1.0, 1.0)
    with edgebert.Runtime(tmp_path / "b", threads=1) as runtime:
        found = runtime.classify([(TEXTS[0], "the good plot"), (TEXTS[0], "the bad plot")])
    assert [result.label for result in found] == ["good", "bad"]


def test_an_embedder_learns_from_plain_text_and_is_scored_by_its_teachers_cosines(lab, tmp_path):
    texts = [{"text": row["text"]} for row in topics()]
    path = write_rows(tmp_path / "texts.jsonl", texts)
    config = distill_settings(
        lab,
        tmp_path / "b",
        teacher=str(lab.embedder),
        task="feature-extraction",
        train_file=path,
        dev_file=path,
        num_train_epochs=4,
    )
    report = compress.distill(config)
    assert set(report.phases[0].terms) >= {"pooled", "similarity"}
    assert report.phases[0].scores[-1][1] > 0.5
    # what remains is the artifact's closeness to its own torch model: no retention to claim
    assert (report.metric, report.teacher.score) == ("cosine", None)
    assert report.retention(report.rows[0]) is None
    with edgebert.Runtime(tmp_path / "b", threads=1) as runtime:
        vectors = runtime.encode(["very fun", "hello"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_an_embedder_is_scored_on_pairs_by_spearman(lab, tmp_path):
    texts = write_rows(tmp_path / "texts.jsonl", ({"text": row["text"]} for row in topics()))
    pairs = [
        {"sentence1": first, "sentence2": second, "score": float(first == second)}
        for first in WORDS
        for second in WORDS
    ]
    dev = write_rows(tmp_path / "dev.jsonl", pairs)
    config = distill_settings(
        lab,
        tmp_path / "b",
        teacher=str(lab.embedder),
        task="feature-extraction",
        train_file=texts,
        dev_file=dev,
    )
    report = compress.distill(config)
    assert report.metric == "spearman"
    assert report.teacher.dev_score is not None
    assert report.retention(report.rows[0]) is not None


def test_a_masked_language_model_is_distilled_from_plain_text(lab, tmp_path):
    path = write_rows(tmp_path / "texts.jsonl", ({"text": row["text"]} for row in topics()))
    config = distill_settings(
        lab,
        tmp_path / "b",
        teacher=str(lab.masked_lm),
        task="fill-mask",
        train_file=path,
        dev_file=path,
    )
    report = compress.distill(config)
    assert set(report.phases[0].terms) >= {"soft", "hidden_token", "cosine"}
    assert report.metric == "accuracy"
    with edgebert.Runtime(tmp_path / "b", threads=1) as runtime:
        batch = runtime.tokenize(["the [MASK] film"])
        assert runtime.run(batch)["logits"].shape[:2] == batch.input_ids.shape


def test_texts_that_are_alike_are_no_collapse_where_the_teacher_finds_them_alike_too(lab):
    from compress.data.load import make_split
    from compress.models.loading import load_teacher, load_tokenizer
    from compress.scoring.probe import TaskHead, make_probe
    from compress.training.dev_score import DevScore

    model = load_teacher(lab.embedder, task="feature-extraction").model
    split = make_split("dev", "here", ["the very same film"] * 8)
    head = TaskHead(task="feature-extraction", pooling="mean", normalize=True)
    probe = make_probe(split, head, load_tokenizer(lab.embedder, 16), max_length=16)
    with pytest.raises(ModelError, match="collapsed"):
        DevScore(probe)(model)
    DevScore(probe, teacher=model)._refuse_collapse(np.ones((8, 32), np.float32))
