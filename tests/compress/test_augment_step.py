"""A student that learns from made texts: what becomes of their labels, what a reader is told."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace

import pytest
import torch

import compress
from compress.data.load import load_data, make_split
from compress.distillation.augmentation import with_augmented
from compress.models.capture import Features
from compress.report import load_report
from compress.training.losses import hard_label_loss
from compress.training.target_terms import hard_term
from compress.training.teacher_step import ready_teacher
from edgebert.errors import InputError, ModelError
from edgebert.formats.manifest import Manifest
from tests.compress.steps import STUDENT, distill_settings, flags, run_step
from tests.compress.tiny_tasks import write_task


def augmented_run(lab, output, **changes):
    settings = {"augment": 2, "augment_model": str(lab.masked_lm), "max_steps": 2, **changes}
    return distill_settings(lab, output, **settings)


@pytest.fixture(scope="module")
def bundle(lab, tmp_path_factory):
    output = tmp_path_factory.mktemp("augmented") / "student"
    compress.distill(augmented_run(lab, output, max_steps=None, num_train_epochs=1))
    return output


def rows_in(output):
    path = output.with_name(f"{output.name}.work") / "augmented" / "rows.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_texts_stay_beside_the_bundle_and_are_counted_in_its_report(bundle, lab):
    rows, report = rows_in(bundle), load_report(bundle)
    assert 80 < len(rows) <= 2 * 80
    assert report.data["augmented"].rows == len(rows)
    assert str(lab.masked_lm) in report.data["augmented"].source
    assert any(f"learned from {len(rows)} made texts beside 80 real" in n for n in report.notes)
    lineage = Manifest.load(bundle).lineage[-1]
    assert lineage["data"]["augmented"] == report.data["augmented"].sha256


def test_an_epoch_passes_over_made_rows_too(bundle):
    rows = 80 + len(rows_in(bundle))
    assert len(load_report(bundle).phases[-1].steps) == math.ceil(rows / 16)


def ready_of(lab, tmp_path, **changes):
    config = augmented_run(lab, tmp_path / "b", **changes)
    data = load_data(config, task=config.task, seed=config.seed)
    own = data.train.text_pairs and ["b"] * 3
    data = replace(data, augmented=make_split("augmented", "x", ["a"] * 3, text_pairs=own))
    teacher = ready_teacher(
        lab.encoder if config.task == "regression" else lab.teacher,
        data,
        config,
        work=tmp_path,
        device=torch.device("cpu"),
        learning_rate=3e-3,
        num_train_epochs=1,
    )
    return teacher, with_augmented(teacher, data, config), data


def test_made_rows_stand_behind_the_real_ones_without_a_label(lab, tmp_path):
    teacher, more, _ = ready_of(lab, tmp_path)
    labels = more.encoded.train.batch(torch.arange(83).numpy())["labels"]
    assert torch.equal(labels[:80], teacher.encoded.train.batch(torch.arange(80).numpy())["labels"])
    assert labels[80:].tolist() == [-100] * 3
    assert len(teacher.encoded.train.rows) == 80  # the teacher learns from real rows alone


def test_made_rows_of_a_regression_have_no_score(lab, tmp_path):
    path = write_task(tmp_path, "regression")
    _, more, data = ready_of(lab, tmp_path, task="regression", train_file=path, dev_file=path)
    labels = more.encoded.train.batch(torch.arange(len(data.train) + 3).numpy())["labels"]
    assert labels.isnan().sum() == 3
    assert labels[-3:].isnan().all()


def test_a_text_without_a_label_is_left_out_of_the_loss_and_its_mean():
    logits = torch.tensor([[0.0, 0.0], [5.0, -7.0], [math.log(3.0), 0.0]], requires_grad=True)
    loss = hard_label_loss(logits, torch.tensor([1, -100, 0]))
    assert loss.item() == pytest.approx((math.log(2.0) + math.log(4.0 / 3.0)) / 2)
    loss.backward()
    assert logits.grad[1].tolist() == [0.0, 0.0]
    weights = torch.tensor([2.0, 3.0])
    weighted = hard_label_loss(logits, torch.tensor([1, -100, 0]), class_weights=weights)
    assert weighted.item() == pytest.approx((3 * math.log(2.0) + 2 * math.log(4.0 / 3.0)) / 2)


def test_many_labels_that_are_not_known_are_left_out_likewise():
    logits = torch.tensor([[0.0, 0.0], [5.0, -7.0]], requires_grad=True)
    loss = hard_label_loss(logits, torch.tensor([[1.0, 0.0], [math.nan, math.nan]]))
    assert loss.item() == pytest.approx(math.log(2.0))
    loss.backward()
    assert logits.grad[1].tolist() == [0.0, 0.0]


def test_a_score_that_is_not_known_is_left_out_likewise():
    scores = torch.tensor([[1.0], [9.0], [4.0]], requires_grad=True)
    term, batch = hard_term("regression", None), {"labels": torch.tensor([3.0, math.nan, 3.0])}
    loss = term.loss(Features(logits=scores), Features(), batch)
    assert loss.item() == pytest.approx((4.0 + 1.0) / 2)
    loss.backward()
    assert scores.grad[:, 0].tolist() == [-2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("text-classification", torch.tensor([-100, -100])),
        ("regression", torch.full((2,), torch.nan)),
    ],
)
def test_a_batch_of_made_rows_alone_has_no_loss_on_true_labels(task, labels):
    width = 2 if task == "text-classification" else 1
    logits = torch.ones(2, width, requires_grad=True)
    loss = hard_term(task, None).loss(Features(logits=logits), Features(), {"labels": labels})
    loss.backward()
    assert loss.item() == 0.0
    assert not logits.grad.any()


def test_hard_labels_and_made_texts_go_together(lab, tmp_path):
    report = compress.distill(augmented_run(lab, tmp_path / "b", hard_weight=0.5))
    assert set(report.phases[-1].terms) == {"loss", "soft", "hard"}


def test_pairs_with_a_score_are_changed_on_both_sides(lab, tmp_path):
    rows = [
        {"sentence1": f"the {a} film", "sentence2": f"the {b} plot", "score": float(a == b)}
        for a in ("good", "bad", "fun", "dull")
        for b in ("good", "bad", "fun", "dull")
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = augmented_run(
        lab,
        tmp_path / "b",
        task="regression",
        teacher=str(lab.encoder),
        train_file=path,
        dev_file=path,
        hard_weight=0.5,
    )
    compress.distill(config)
    made = rows_in(tmp_path / "b")
    assert any(row["text"] != row["original"] for row in made)
    assert any(row["text_pair"] != row["original_pair"] for row in made)


def test_an_embedder_learns_from_the_vectors_of_made_texts(lab, tmp_path):
    path = write_task(tmp_path, "fill-mask")  # plain texts
    config = augmented_run(
        lab,
        tmp_path / "b",
        task="feature-extraction",
        teacher=str(lab.embedder),
        train_file=path,
        dev_file=path,
        max_steps=None,
        num_train_epochs=1,
    )
    report = compress.distill(config)
    rows = report.data["train"].rows + report.data["augmented"].rows
    assert len(report.phases[-1].steps) == math.ceil(rows / 16)


def test_a_teacher_without_the_head_gives_neighbours_and_that_is_said_everywhere(
    lab, tmp_path, caplog
):
    with caplog.at_level(logging.WARNING):
        report = compress.distill(augmented_run(lab, tmp_path / "b", augment_model=None))
    assert f"{lab.teacher} has no masked-language-model head" in caplog.text
    assert "neighbours of its input embeddings alone" in report.data["augmented"].source
    assert any("neighbours of its input embeddings alone" in note for note in report.notes)


def test_an_augment_model_without_the_head_is_refused(lab, tmp_path):
    with pytest.raises(ModelError, match=r"--augment-model: .*encoder has no masked"):
        compress.distill(augmented_run(lab, tmp_path / "b", augment_model=str(lab.encoder)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "token-classification"}, "the tags belong to the very words"),
        ({"task": "question-answering"}, "move its place"),
        ({"task": "multiple-choice"}, "another choice may be the right one"),
        ({"task": "fill-mask"}, "made texts have none"),
        ({"augment": 0}, "--augment-model needs --augment"),
        ({"augment": -1}, "augment must be 0 or more, got -1"),
        ({"augment_probability": 0.0}, "augment_probability must be above 0"),
        ({"augment_top_k": 0}, "augment_top_k must be 1 or more"),
    ],
)
def test_what_can_not_be_augmented_is_refused_before_anything_is_read(lab, tmp_path, changes, said):
    with pytest.raises(InputError, match=said):
        augmented_run(lab, tmp_path / "b", **changes)


@pytest.mark.slow
def test_the_command_line_gives_the_same_weights_again(lab, bundle, tmp_path):
    config = augmented_run(lab, tmp_path / "b", max_steps=None, num_train_epochs=1)
    assert config.student == STUDENT
    assert run_step("distill", *flags(config)) == 0
    hashes = {
        Manifest.load(one).lineage[-1]["weights_sha256"] for one in (bundle, config.output_dir)
    }
    assert len(hashes) == 1
    assert rows_in(bundle) == rows_in(config.output_dir)
