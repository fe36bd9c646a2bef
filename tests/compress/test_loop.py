from __future__ import annotations

import dataclasses
import logging
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from compress.settings import TrainingConfig
from compress.training.batches import LengthBatches
from compress.training.checkpoint import weights_sha256
from compress.training.loop import LoopSettings, train_loop
from edgebert.errors import EdgeBertError, InputError, ResumeError

PLAIN = LoopSettings(learning_rate=0.05, bf16=False, num_train_epochs=3, warmup_ratio=0.0)


class Task:
    """A line through six points, learned by a layer with dropout; notes what the loop asks for."""

    def __init__(self, *, rows: int = 6, dropout: float = 0.1) -> None:
        torch.manual_seed(0)
        self.x = torch.randn(rows, 4)
        self.y = self.x.sum(dim=1, keepdim=True)
        self.student = nn.Sequential(nn.Linear(4, 8), nn.Dropout(dropout), nn.Linear(8, 1))
        self.modules = nn.ModuleDict({"student": self.student})
        self.asked: list[list[int]] = []
        self.modes: list[bool] = []
        self.scores: list[float] = []

    def step(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        self.asked.append(rows.tolist())
        difference = self.student(self.x[rows]) - self.y[rows]
        return {"mse": (difference**2).mean(), "mae": 0.5 * difference.abs().mean()}

    def evaluate(self) -> dict[str, float]:
        self.modes.append(self.student.training or torch.is_grad_enabled())
        return {"score": self.scores.pop(0), "other": 0.0}

    def train(self, directory: Path, *, batch_size: int = 2, **arguments: Any) -> Any:
        settings = arguments.pop("settings", PLAIN)
        batches = LengthBatches(np.ones(len(self.x)), batch_size=batch_size, seed=0)
        return train_loop(
            **{"modules": self.modules, "step": self.step, "batches": batches, **arguments},
            settings=settings,
            checkpoint_dir=directory,
        )


def scored(**changes: Any) -> LoopSettings:
    return dataclasses.replace(PLAIN, metric_name="score", **changes)


def test_the_loss_goes_down(tmp_path):
    settings = dataclasses.replace(PLAIN, num_train_epochs=30)
    history = Task(dropout=0.0).train(tmp_path, settings=settings).history
    assert history[-1]["loss"] < 0.2 * history[0]["loss"]


def test_a_step_is_noted_with_its_terms_rate_and_their_sum(tmp_path):
    entry = Task().train(tmp_path).history[0]
    assert list(entry) == ["step", "lr", "loss", "grad_norm", "mse", "mae"]
    assert entry["step"] == 1
    assert entry["lr"] == 0.05
    assert entry["loss"] == pytest.approx(entry["mse"] + entry["mae"])


def test_epochs_times_batches_are_the_steps(tmp_path):
    task = Task()
    assert task.train(tmp_path).steps == 9
    assert sorted(row for rows in task.asked[:3] for row in rows) == list(range(6))


@pytest.mark.parametrize("max_steps", [2, 11])
def test_max_steps_counts_whatever_the_epochs(tmp_path, max_steps):
    settings = dataclasses.replace(PLAIN, max_steps=max_steps)
    assert Task().train(tmp_path, settings=settings).steps == max_steps


def test_ragged_accumulation_has_the_gradient_of_all_its_rows_at_once(tmp_path):
    task = Task(dropout=0.0)
    difference = task.student(task.x) - task.y
    loss = (difference**2).mean() + 0.5 * difference.abs().mean()
    gradients = torch.autograd.grad(loss, list(task.student.parameters()))
    norm = torch.cat([g.flatten() for g in gradients]).norm().item()
    settings = dataclasses.replace(PLAIN, gradient_accumulation_steps=2)
    result = task.train(tmp_path, batch_size=4, settings=settings)  # 4 rows, then 2
    assert result.history[0]["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert result.history[0]["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert result.steps == 3


def test_dev_is_measured_in_eval_mode_without_gradient_after_each_epoch(tmp_path):
    task = Task()
    task.scores = [0.1, 0.2, 0.3]
    result = task.train(tmp_path, settings=scored(), evaluate=task.evaluate)
    assert [entry["step"] for entry in result.evals] == [3, 6, 9]
    assert task.modes == [False] * 3


@pytest.mark.parametrize(
    ("scores", "greater", "best"),
    [([0.1, 0.9, 0.3], True, 6), ([0.1, 0.9, 0.3], False, 3), ([0.5, 0.5, 0.5], True, 3)],
)
def test_the_weights_of_the_best_measurement_are_left(tmp_path, scores, greater, best):
    task, seen = Task(), {}

    def evaluate() -> dict[str, float]:
        metrics = task.evaluate()
        seen[3 * (len(seen) + 1)] = weights_sha256(task.modules)
        return metrics

    task.scores = list(scores)
    result = task.train(tmp_path, settings=scored(greater_is_better=greater), evaluate=evaluate)
    assert result.best_step == best
    assert result.best_metric == scores[best // 3 - 1]
    assert weights_sha256(task.modules) == seen[best]
    assert len(set(seen.values())) == 3


def test_training_stops_after_so_many_measurements_without_a_better_one(tmp_path):
    task = Task()
    task.scores = [0.5, 0.9, 0.8, 0.9, 1.0]
    settings = scored(num_train_epochs=5, early_stopping_patience=2)
    result = task.train(tmp_path, settings=settings, evaluate=task.evaluate)
    assert (result.steps, result.best_step) == (12, 6)


def test_measuring_has_no_say_in_the_weights(tmp_path):
    plain, measured = Task(), Task()
    plain.train(tmp_path / "a")

    def evaluate() -> dict[str, float]:
        torch.rand(7)  # random numbers that a measurement may use
        return {"score": float(len(measured.asked))}

    measured.train(tmp_path / "b", settings=scored(eval_steps=2), evaluate=evaluate)
    assert weights_sha256(plain.modules) == weights_sha256(measured.modules)


def test_a_missing_metric_is_refused_with_the_names_there_are(tmp_path):
    task = Task()
    task.scores = [0.5]
    settings = dataclasses.replace(PLAIN, metric_name="f1")
    with pytest.raises(InputError, match="No metric 'f1' on dev; there are: score, other"):
        task.train(tmp_path, settings=settings, evaluate=task.evaluate)


def test_a_loss_that_is_no_number_stops_with_its_name_and_step(tmp_path):
    task = Task()

    def step(rows: np.ndarray) -> dict[str, torch.Tensor]:
        factor = float("nan") if len(task.asked) == 4 else 1.0
        return {name: term * factor for name, term in task.step(rows).items()}

    task.asked.append([])
    with pytest.raises(EdgeBertError, match=r"mae is nan at step 4 of train; lower --learning"):
        task.train(tmp_path, step=step)


def interrupted_at(task: Task, number: int) -> Any:
    def step(rows: np.ndarray) -> dict[str, torch.Tensor]:
        if len(task.asked) == number - 1:
            os.kill(os.getpid(), signal.SIGINT)
        return task.step(rows)

    return step


def test_an_interrupted_run_is_saved_and_ends_like_an_unbroken_one(tmp_path):
    whole, broken, resumed = Task(), Task(), Task()
    expected = whole.train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt, match="interrupted at step 5 of train; go on with"):
        broken.train(tmp_path / "broken", step=interrupted_at(broken, 5))
    result = resumed.train(tmp_path / "broken", resume=True)
    assert len(resumed.asked) == 4
    assert result.history == expected.history
    assert weights_sha256(resumed.modules) == weights_sha256(whole.modules)


def test_resuming_a_loop_that_was_done_only_loads_it(tmp_path):
    first, second = Task(), Task()
    expected = first.train(tmp_path)
    assert second.train(tmp_path, resume=True) == expected
    assert not second.asked
    assert not second.modules.training
    assert weights_sha256(second.modules) == weights_sha256(first.modules)


def test_without_resume_what_is_there_is_removed(tmp_path):
    Task().train(tmp_path)
    again = Task()
    again.train(tmp_path)
    assert len(again.asked) == 9


def test_resume_with_nothing_there_starts_at_the_beginning(tmp_path):
    assert Task().train(tmp_path / "new", resume=True).steps == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": dataclasses.replace(PLAIN, learning_rate=0.1)}, "learning_rate was 0.05 and"),
        ({"batch_size": 3}, "batches.batch_size was 2 and is 3"),
        ({"fingerprint": {"data": "b"}}, "data was 'a' and is 'b'"),
    ],
)
def test_resuming_with_something_else_is_refused(tmp_path, changes, message):
    broken = Task()
    step = interrupted_at(broken, 2)
    with pytest.raises(KeyboardInterrupt):
        broken.train(tmp_path, step=step, fingerprint={"data": "a"})
    with pytest.raises(ResumeError, match=message):
        Task().train(tmp_path, resume=True, **{"fingerprint": {"data": "a"}, **changes})


def test_how_often_to_save_may_change_when_resuming(tmp_path):
    broken = Task()
    with pytest.raises(KeyboardInterrupt):
        broken.train(tmp_path, step=interrupted_at(broken, 2))
    settings = dataclasses.replace(PLAIN, save_steps=1)
    assert Task().train(tmp_path, settings=settings, resume=True).steps == 9


def test_settings_come_from_a_steps_config_by_name(tmp_path):
    config = TrainingConfig(output_dir=tmp_path, learning_rate=0.5, save_steps=7, seed=3)
    settings = LoopSettings.from_config(config, metric_name="mcc", greater_is_better=False)
    assert (settings.learning_rate, settings.save_steps, settings.seed) == (0.5, 7, 3)
    assert (settings.metric_name, settings.greater_is_better) == ("mcc", False)


def test_measurements_are_logged(tmp_path, caplog):
    task = Task()
    task.scores = [0.1, 0.2, 0.3]
    with caplog.at_level(logging.INFO):
        task.train(tmp_path, settings=scored(), evaluate=task.evaluate, progress_label="distill")
    assert "distill: step 3 of 9: score 0.1000, other 0.0000" in caplog.messages
