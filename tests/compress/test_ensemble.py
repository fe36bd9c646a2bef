"""Several teachers as one: their labels by name, their tokenizers apart."""

from __future__ import annotations

import json
import shutil
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import compress
from compress.distillation.ensemble import note_of
from compress.models.capture import Features
from compress.report import load_report
from edgebert.errors import InputError, ModelError
from edgebert.formats.manifest import Manifest
from tests.compress.ensembles import asked, write_other_tokens
from tests.compress.steps import distill_settings, flags, run_step, train_settings
from tests.compress.test_resume import KILLER, resume, sha256, start
from tests.compress.tiny_tasks import write_task

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def second(lab, tmp_path_factory):
    """A teacher with another vocabulary: the words of the data in other places, no ``##``."""
    folder = tmp_path_factory.mktemp("second")
    write_other_tokens(folder / "encoder")
    compress.train(
        train_settings(
            lab,
            model=str(folder / "encoder"),
            output_dir=folder / "teacher",
            num_train_epochs=12,
        )
    )
    return folder / "teacher"


def permuted(teacher, directory, names):
    """Write a teacher whose logits are in the other order, by these names."""
    shutil.copytree(teacher, directory)
    weights = load_file(directory / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        weights[name] = weights[name].flip(0).contiguous()
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["id2label"] = {str(logit): name for logit, name in enumerate(names)}
    config["label2id"] = {name: logit for logit, name in enumerate(names)}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def probabilities(directory, texts):
    """Ask a checkpoint by transformers alone; columns in the order bad, good."""
    from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"), pad_token="[PAD]"
    )
    found = []
    for text in texts:
        with torch.no_grad():
            found.append(model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=-1))
    order = [model.config.label2id[name] for name in ("bad", "good")]
    return torch.stack(found)[:, order]


def test_train_rows_get_the_mean_of_what_each_says_in_its_own_tokens(lab, second, tmp_path):
    ensemble, data = asked(lab, tmp_path, second)
    expected = sum(probabilities(one, data.train.texts) for one in (lab.teacher, second)) / 2
    torch.testing.assert_close(ensemble.answers.softmax(dim=-1), expected, atol=1e-5, rtol=0)
    rows = np.array([7, 3])
    features = Features()
    ensemble.put(features, rows, "cpu")
    assert torch.equal(features.logits, ensemble.answers[[7, 3]])


def test_labels_in_another_order_are_followed_by_name(lab, second, tmp_path):
    other = permuted(second, tmp_path / "permuted", ("good", "bad"))
    ensemble, _ = asked(lab, tmp_path, second)
    again, _ = asked(lab, tmp_path / "again", other)
    torch.testing.assert_close(again.answers, ensemble.answers, atol=1e-5, rtol=0)


def test_given_shares_are_taken_and_a_teacher_without_one_is_not_asked(lab, second, tmp_path):
    ensemble, data = asked(lab, tmp_path, second, teacher_weights="1,3")
    own, other = (probabilities(one, data.train.texts) for one in (lab.teacher, second))
    expected = own / 4 + 3 * other / 4
    torch.testing.assert_close(ensemble.answers.softmax(dim=-1), expected, atol=1e-5, rtol=0)
    alone, _ = asked(lab, tmp_path / "alone", second, teacher_weights="0,1")
    torch.testing.assert_close(alone.answers.softmax(dim=-1), other, atol=1e-5, rtol=0)
    assert not (tmp_path / "alone" / "w" / "cache-1").exists()
    assert alone.record.dev_score == alone.record.members[1].dev_score
    assert [one.weight for one in alone.record.members] == [0, 1]
    assert "2 teachers, all answers are of the one with weight 1: " in note_of(alone.record)
    assert "2 teachers, their answers averaged: " in note_of(ensemble.record)


def test_weights_by_dev_are_shares_of_the_scores_on_dev(lab, second, tmp_path):
    weak = permuted(second, tmp_path / "weak", ("bad", "good"))
    weights = load_file(weak / "model.safetensors")
    weights["classifier.weight"] *= -1  # right again, but now with a bias to one class
    weights["classifier.bias"] = torch.tensor([0.0, 0.5])
    save_file(weights, weak / "model.safetensors", {"format": "pt"})
    ensemble, _ = asked(lab, tmp_path, weak, teacher_weights="dev")
    members = ensemble.record.members
    total = sum(one.dev_score for one in members)
    assert [one.weight for one in members] == [one.dev_score / total for one in members]


@pytest.fixture(scope="module")
def bundle(lab, second, tmp_path_factory):
    output = tmp_path_factory.mktemp("ensemble") / "student"
    config = distill_settings(
        lab, output, extra_teacher=(str(second),), method="distilbert", num_train_epochs=8
    )
    compress.distill(config)
    return output


def test_the_report_names_all_teachers_with_weights_and_scores(bundle, lab, second):
    report = load_report(bundle)
    assert report.teacher.used == str(lab.teacher)
    ensemble = report.teacher.ensemble
    assert [one.used for one in ensemble.members] == [str(lab.teacher), str(second)]
    assert [one.weight for one in ensemble.members] == [0.5, 0.5]
    assert (ensemble.metric, ensemble.weighting) == ("accuracy", "uniform")
    assert ensemble.dev_score == report.teacher.dev_score == 1.0
    (note,) = [note for note in report.notes if note.startswith("2 teachers")]
    assert str(second) in note
    assert "together 1.0000 accuracy on dev" in note
    assert note in (bundle / "report.html").read_text()
    assert Manifest.load(bundle).lineage[-1]["ensemble"]["members"][1]["used"] == str(second)


def test_hidden_states_are_compared_with_the_first_teacher_alone(bundle):
    assert set(load_report(bundle).phases[-1].terms) == {"loss", "soft", "cosine"}
    assert load_report(bundle).rows[0].score == 1.0


@pytest.mark.slow
def test_a_teacher_without_a_head_is_fine_tuned_and_kept_and_made_texts_are_asked_too(
    lab, second, tmp_path
):
    config = distill_settings(
        lab,
        tmp_path / "b",
        extra_teacher=(str(second.parent / "encoder"),),
        augment=1,
        augment_model=str(lab.masked_lm),
        teacher_num_train_epochs=12,
        num_train_epochs=1,
    )
    report = compress.distill(config)
    assert [phase.name for phase in report.phases] == ["teacher-2", "prediction"]
    kept = {path.name for path in (tmp_path / "b.work").iterdir()}
    assert kept == {"teacher-2", "augmented"}
    again = distill_settings(
        lab,
        tmp_path / "c",
        extra_teacher=(str(tmp_path / "b.work" / "teacher-2"),),
        num_train_epochs=1,
    )
    assert compress.distill(again).teacher.ensemble.members[1].dev_score > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("task", ["regression", "multiple-choice"])
def test_other_tasks_with_one_answer_a_text_have_ensembles_too(lab, second, tmp_path, task):
    path = write_task(tmp_path, task)
    config = distill_settings(
        lab,
        tmp_path / "b",
        task=task,
        teacher=str(lab.encoder),
        extra_teacher=(str(second.parent / "encoder"),),
        train_file=path,
        dev_file=path,
        max_steps=2,
    )
    record = compress.distill(config).teacher.ensemble
    assert record.dev_score > 0.5


def test_labels_of_another_task_are_an_error_with_both_before_any_training(lab, tmp_path):
    other = permuted(lab.teacher, tmp_path / "other", ("yes", "no"))
    config = distill_settings(
        lab, tmp_path / "b", teacher=str(lab.encoder), extra_teacher=(str(other),)
    )
    with pytest.raises(ModelError, match=r"--extra-teacher .*\(yes, no\).*\(bad, good\)"):
        compress.distill(config)
    assert not (tmp_path / "b.work").exists()


def test_labels_without_names_are_an_error_with_both(lab, tmp_path):
    other = permuted(lab.teacher, tmp_path / "other", ("LABEL_0", "LABEL_1"))
    config = distill_settings(lab, tmp_path / "b", extra_teacher=(str(other),))
    with pytest.raises(ModelError, match=r"LABEL_0, LABEL_1.*bad, good.*id2label"):
        compress.distill(config)


def test_a_teacher_given_twice_is_refused(lab, tmp_path):
    config = distill_settings(lab, tmp_path / "b", extra_teacher=(str(lab.teacher),))
    with pytest.raises(InputError, match="is a teacher of this run already"):
        compress.distill(config)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "token-classification"}, "cut words differently"),
        ({"task": "question-answering"}, "cut words differently"),
        ({"task": "fill-mask"}, "vocabularies differ"),
        ({"task": "feature-extraction"}, "two spaces"),
        ({"task": "feature-extraction", "teacher_weights": "1,1"}, "two spaces"),
        ({"extra_teacher": (), "teacher_weights": "dev"}, "--teacher-weights needs"),
        ({"teacher_weights": "best"}, r"2 numbers of 0 or more like 1,1.*got 'best'"),
        ({"teacher_weights": "1"}, "2 numbers"),
        ({"teacher_weights": "2,-1"}, "2 numbers"),
        ({"teacher_weights": "0,0"}, "2 numbers"),
        ({"teacher_weights": "nan,1"}, "2 numbers"),
    ],
)
def test_what_can_not_be_averaged_is_refused_before_anything_is_read(lab, tmp_path, changes, said):
    with pytest.raises(InputError, match=said):
        distill_settings(lab, tmp_path / "b", **{"extra_teacher": ("x",), **changes})


@pytest.mark.slow
def test_the_command_takes_several_and_ends_in_the_same_weights(bundle, lab, second, tmp_path):
    config = distill_settings(
        lab,
        tmp_path / "b",
        extra_teacher=(str(second),),
        method="distilbert",
        num_train_epochs=8,
    )
    assert run_step("distill", *flags(config)) == 0
    hashes = {Manifest.load(one).lineage[-1]["weights_sha256"] for one in (bundle, tmp_path / "b")}
    assert len(hashes) == 1


DEATHS = {  # where, and at which call
    "copies": ("compress.distillation.augmented_rows", "RowCopies.lines", 2),
    "second teacher": ("compress.distillation.ensemble", "_ask", 2),
    "its answers": ("compress.distillation.teacher_cache", "TeacherCache._write", 2),
    "student": ("compress.training.loop", "_Loop._update", 4),
}


def long_settings(lab, second, output):
    return distill_settings(
        lab,
        output,
        extra_teacher=(str(second),),
        augment=1,
        augment_model=str(lab.masked_lm),
        num_train_epochs=1,
        save_steps=3,
    )


@pytest.fixture(scope="module")
def unbroken(lab, second, tmp_path_factory):
    output = tmp_path_factory.mktemp("unbroken") / "student"
    compress.distill(long_settings(lab, second, output))
    return output


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
def test_killed_anywhere_and_resumed_it_has_the_unbroken_weights(
    lab, second, unbroken, tmp_path, death
):
    config = long_settings(lab, second, tmp_path / "b")
    module, function, call = DEATHS[death]
    script = KILLER.replace("SIGNAL", str(int(signal.SIGKILL)))
    killed = start(config, "-c", script, module, function, str(call))
    _, stderr = killed.communicate(timeout=600)
    assert killed.returncode == -signal.SIGKILL, stderr
    assert not config.output_dir.exists()
    assert resume(config) == 0
    assert sha256(config.output_dir) == sha256(unbroken)
