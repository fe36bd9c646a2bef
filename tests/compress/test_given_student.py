"""A student that is a checkpoint already goes on learning; what doesn't fit it is told at once."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import compress
from compress import prune, share
from compress.models.sentence_layout import SentenceLayout, read_layout, write_layout
from compress.pruning.config import PruneConfig
from edgebert.errors import InputError, ModelError
from tests.compress.share_models import share_settings
from tests.compress.steps import QUICK, distill_settings, run_step
from tests.tiny import VOCAB, write_classifier, write_encoder, write_tokenizer

SLOWLY = {"learning_rate": 1e-6, "num_train_epochs": 1}


def weights_of(directory):
    return load_file(directory / "model.safetensors")


def moved(directory, start) -> float:
    """Say how far the weights of a student are from where it started, at most."""
    before, after = weights_of(start), weights_of(directory)
    assert before.keys() == after.keys()
    return max(float((after[name] - before[name]).abs().max()) for name in before)


def test_it_starts_from_the_weights_of_its_checkpoint(lab, tmp_path):
    output = tmp_path / "on"
    report = compress.distill(distill_settings(lab, output, student=str(lab.teacher), **SLOWLY))
    assert 0 < moved(output, lab.teacher) < 1e-4
    assert report.student.init == "checkpoint"
    assert report.student.params == report.teacher.params
    assert json.loads((output / "run.json").read_text())["student"] == str(lab.teacher)


def test_layers_that_share_weights_share_them_afterwards(lab, tmp_path):
    shared, output = tmp_path / "shared", tmp_path / "on"
    share(share_settings(lab, shared, num_hidden_groups=1, num_train_epochs=0))
    settings = {"student": str(shared), "quantization_aware": "int8", "num_train_epochs": 1}
    compress.distill(distill_settings(lab, output, **settings))
    assert moved(output, shared) > 1e-3


def test_pruned_heads_stay_pruned(lab, tmp_path):
    pruned, output = tmp_path / "pruned", tmp_path / "on"
    settings = {"model": str(lab.teacher), "train_file": lab.train, "dev_file": lab.train}
    cut = {"sparsity": 0.1, "units": "heads", "num_train_epochs": 0, "backend": "torch"}
    prune(PruneConfig(**QUICK, **settings, **cut, output_dir=pruned))
    how = {"student": str(pruned), "quantization_aware": "int4", "num_train_epochs": 1}
    compress.distill(distill_settings(lab, output, **how))
    before, after = weights_of(pruned), weights_of(output)
    heads = [name for name in before if name.endswith("attention.output.dense.weight")]
    zeros = torch.cat([before[name].flatten() for name in heads]) == 0
    assert zeros.any()
    assert (torch.cat([after[name].flatten() for name in heads])[zeros] == 0).all()


def test_an_embedder_trains_the_dense_module_of_its_own_checkpoint(lab, tmp_path):
    from compress.models.dense import Dense

    student, output = tmp_path / "student", tmp_path / "on"
    for place, seed in ((student, 1), (tmp_path / "teacher", 2)):
        write_encoder(place, initializer_range=0.2)
        torch.manual_seed(seed)
        layout = SentenceLayout(
            pooling="mean", normalize=True, dense=torch.nn.Sequential(Dense(32, 8))
        )
        write_layout(place, layout, hidden_size=32)
    settings = {"task": "feature-extraction", "student": str(student), **SLOWLY}
    compress.distill(distill_settings(lab, output, teacher=str(tmp_path / "teacher"), **settings))
    before, after = (read_layout(one).dense[0].linear.weight for one in (student, output))
    torch.testing.assert_close(after, before, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": "layers"}, "--init layers says how a new student starts"),
        ({"student": "encoder"}, "has no head for text-classification"),
        ({"student": "other"}, "has other tokens than its teacher, such as for"),
        ({"student": "labels"}, "labels"),
        ({"student": "nothing"}, "config.json"),
    ],
)
def test_what_is_no_student_of_this_teacher_is_refused(lab, tmp_path, changes, message):
    vocab = [*VOCAB[:5], *reversed(VOCAB[5:])]
    write_classifier(tmp_path / "other")
    write_tokenizer(tmp_path / "other", vocab=vocab)
    write_encoder(tmp_path / "encoder")
    write_classifier(tmp_path / "labels", labels=("no", "yes"))
    (tmp_path / "nothing").mkdir()
    student = {"student": str(tmp_path / changes.get("student", "other"))}
    with pytest.raises((InputError, ModelError), match=message):
        compress.distill(distill_settings(lab, tmp_path / "on", **{**changes, **student}))
    assert not (tmp_path / "on").exists()
    assert not (tmp_path / "on.work").exists()


def test_an_embedder_that_pools_otherwise_than_its_teacher_is_refused(lab, tmp_path):
    write_encoder(tmp_path / "student")
    layout = SentenceLayout(pooling="cls", normalize=True)
    write_layout(tmp_path / "student", layout, hidden_size=32)
    settings = {"teacher": str(lab.embedder), "task": "feature-extraction"}
    with pytest.raises(ModelError, match=r"pooling cls of 1 layers.* not pooling mean"):
        compress.distill(
            distill_settings(lab, tmp_path / "on", student=str(tmp_path / "student"), **settings)
        )


def test_a_student_in_the_work_directory_is_not_cleared(lab, tmp_path, capsys):
    inside = tmp_path / "on.work" / "student"
    write_classifier(inside)
    output = ["--output-dir", str(tmp_path / "on"), "--teacher", str(lab.teacher)]
    data = ["--train-file", str(lab.train), "--student", str(inside)]
    assert run_step("distill", *output, *data) == 1
    assert "lies in" in capsys.readouterr().err
    assert inside.exists()
