"""Distillation in rounded numbers: where it rounds, what it keeps and brings, how it resumes."""

from __future__ import annotations

import copy
import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

import compress
from compress.distillation.imitate import DevScore
from compress.report import load_report
from compress.training import loop
from compress.training.fake_quant import ROUNDINGS, fake_quantized, round_weight
from edgebert.errors import InputError, ResumeError
from tests.compress.phases import models
from tests.compress.steps import distill_settings, flags, run_step
from tests.tiny import VOCAB


def settings(lab, output, **changes):
    """A student of two phases, of 5 and 10 steps, saved at every third."""
    own = {"method": "tinybert", "save_steps": 3, "quantization_aware": "int8"}
    return distill_settings(lab, output, **{**own, **changes})


@pytest.fixture(scope="module")
def made(lab, tmp_path_factory):
    """Students by how they were trained."""
    folder = tmp_path_factory.mktemp("aware")
    for how in ROUNDINGS:
        compress.distill(settings(lab, folder / how, quantization_aware=how))
    return {how: folder / how for how in ROUNDINGS}


def sha256(output) -> str:
    return hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()


def test_only_the_last_phase_rounds(made):
    phases = {how: load_report(made[how]).phases for how in ROUNDINGS}
    for how in ("int8", "int4"):
        assert phases[how][0].terms == phases["none"][0].terms
        assert phases[how][1].terms != phases["none"][1].terms


def test_the_checkpoint_is_a_plain_one_of_the_same_names_and_shapes(made):
    plain, *others = (load_file(made[how] / "model.safetensors") for how in ROUNDINGS)
    for other in others:
        assert {name: value.shape for name, value in other.items()} == {
            name: value.shape for name, value in plain.items()
        }
    assert AutoModelForSequenceClassification.from_pretrained(made["int8"]).config.num_labels == 2


@pytest.mark.parametrize(("how", "steps", "block"), [("int8", 127, None), ("int4", 7, 32)])
def test_its_weights_are_whole_multiples_of_their_scales(made, how, steps, block):
    for name, value in load_file(made[how] / "model.safetensors").items():
        if value.dim() == 2:
            grid = (127, None) if "embeddings." in name else (steps, block)
            torch.testing.assert_close(round_weight(value, steps=grid[0], block=grid[1]), value)


def test_int8_of_it_is_as_good_as_its_fp32_and_the_report_says_how_it_was_trained(made):
    report = load_report(made["int8"])
    assert {row.precision for row in report.rows} == {"fp32", "int8"}
    assert any("rounded as INT8 artifacts round them" in note for note in report.notes)
    assert not any("rounded" in note for note in load_report(made["none"]).notes)
    assert json.loads((made["int8"] / "run.json").read_text())["quantization_aware"] == "int8"


def test_dev_picks_the_weights_by_rounded_numbers(lab, tmp_path, monkeypatch):
    rounded, score = [], DevScore.__call__

    def look(self, model):
        rounded.append(any("forward" in vars(module) for module in model.modules()))
        return score(self, model)

    monkeypatch.setattr(DevScore, "__call__", look)
    compress.distill(settings(lab, tmp_path / "student", method="logits"))
    assert rounded == [False, True, True]  # the teacher, then the student at each epoch's end


class KilledError(BaseException):
    """As a process ends: nobody catches it."""


@pytest.mark.parametrize("step", [5 + 4, 5 + 10])
def test_killed_in_rounded_numbers_and_resumed_it_has_the_unbroken_weights(
    lab, tmp_path, made, monkeypatch, step
):
    update, calls = loop._Loop._update, 0

    def die(self, group):
        nonlocal calls
        calls += 1
        if calls == step:
            raise KilledError
        update(self, group)

    config = settings(lab, tmp_path / "student")
    with monkeypatch.context() as patched:
        patched.setattr(loop._Loop, "_update", die)
        with pytest.raises(KilledError):
            compress.distill(config)
    assert run_step("distill", *flags(config), "--resume") == 0
    assert sha256(tmp_path / "student") == sha256(made["int8"])


def test_a_run_is_not_resumed_in_other_numbers(lab, made):
    with pytest.raises(ResumeError, match="quantization_aware was 'int8' and is 'int4'"):
        compress.distill(settings(lab, made["int8"], quantization_aware="int4", resume=True))


def test_other_numbers_than_those_of_artifacts_are_refused(lab, tmp_path):
    with pytest.raises(InputError, match="quantization_aware must be one of none, int8, int4"):
        settings(lab, tmp_path, quantization_aware="int2")


def test_int4_with_it_is_ten_times_nearer_to_the_teacher_than_without():
    teacher = models("text-classification", teacher={"initializer_range": 0.2})["teacher"]
    student = copy.deepcopy(teacher)  # in FP32 it has nothing to learn
    torch.manual_seed(0)
    texts = torch.randint(5, len(VOCAB), (68, 16, 10))
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4)

    def loss(ids):
        with torch.no_grad():
            targets = teacher(ids).logits
        return (student(ids).logits - targets).pow(2).mean()

    held_out = texts[60:].reshape(-1, 10)
    with fake_quantized([student], ROUNDINGS["int4"]):
        without = loss(held_out).item()
        for ids in texts[:60]:
            loss(ids).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert loss(held_out).item() < without / 10
