"""A student that shares is built like any other, and then stored as an ALBERT."""

from __future__ import annotations

import json

import pytest
import torch

import compress
from compress.distillation.student_start import share_student
from compress.models.student import Architecture, build_student, parse_student
from edgebert.errors import InputError
from tests.compress.steps import distill_settings
from tests.tiny import bert_config

SHARED = "L=2,H=16,A=2,I=32,E=8,G=1"


def test_the_two_numbers_of_sharing_are_read_and_written():
    architecture = parse_student(SHARED, bert_config())
    assert architecture == Architecture(2, 16, 2, 32, embedding_size=8, num_hidden_groups=1)
    assert str(architecture) == SHARED
    assert not parse_student("L=1", bert_config()).shares


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("E=64", "embedding_size must be from 2 to its hidden_size 32, got 64"),
        ("E=1", "embedding_size must be from 2"),
        ("L=2,G=3", "num_hidden_groups must be a divisor of its 2 layers, got 3"),
    ],
)
def test_sharing_that_has_no_form_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_student(text, bert_config())


def test_a_student_with_as_many_groups_as_layers_computes_what_it_did():
    from transformers import BertForSequenceClassification

    teacher = BertForSequenceClassification(bert_config()).eval()
    whole = build_student(Architecture(2, 16, 2, 32), teacher, layer_map=(1, 2), seed=0)
    shared = share_student(whole, Architecture(2, 16, 2, 32, num_hidden_groups=2))
    ids = torch.tensor([[2, 40, 50, 3]])
    torch.testing.assert_close(
        shared.model.eval()(ids).logits, whole.model.eval()(ids).logits, atol=1e-5, rtol=0
    )


def test_distill_makes_a_student_that_shares(lab, tmp_path):
    report = compress.distill(
        distill_settings(lab, tmp_path / "student", student=SHARED, max_steps=2)
    )
    written = json.loads((tmp_path / "student" / "config.json").read_text())
    assert written["model_type"] == "albert"
    assert (written["embedding_size"], written["num_hidden_groups"]) == (8, 1)
    assert report.student.name == SHARED


def test_a_family_without_such_a_form_is_refused_before_any_work(lab, tmp_path):
    with pytest.raises(InputError, match="needs the whole embedding table"):
        compress.distill(
            distill_settings(
                lab,
                tmp_path / "student",
                teacher=str(lab.masked_lm),
                task="fill-mask",
                student="E=8",
            )
        )
    assert not (tmp_path / "student").exists()
