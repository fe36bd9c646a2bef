"""Live curves."""

from __future__ import annotations

from pathlib import Path

import pytest

import compress
from compress.train import TrainConfig
from compress.training.tensorboard import event_writer
from tests.compress.steps import train_settings


def read_events(folder: Path):
    """Read what a loop wrote, as TensorBoard does."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return events


def test_a_training_writes_the_loss_of_every_step_and_the_score(lab, tmp_path):
    pytest.importorskip("tensorboard")
    changes = {"max_steps": 4, "eval_steps": 2, "report_to": "tensorboard"}
    compress.train(train_settings(lab, output_dir=tmp_path / "t", **changes))
    (label,) = (tmp_path / "t.runs").iterdir()
    events = read_events(label)
    losses = events.Scalars("loss")
    assert [event.step for event in losses] == [1, 2, 3, 4]
    assert all(0.0 < event.value < 5.0 for event in losses)
    assert [event.step for event in events.Scalars("accuracy")] == [2, 4]


def test_losses_are_in_the_event_file(tmp_path):
    pytest.importorskip("tensorboard")
    config = TrainConfig(model="x", output_dir=tmp_path / "out", report_to="tensorboard")
    write = event_writer(config, "teacher")
    write({"step": 1, "loss": 0.5})
    write({"step": 2, "loss": 0.25})
    write.close()
    events = read_events(tmp_path / "out.runs" / "teacher")
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]


def test_nothing_is_written_unasked(tmp_path):
    config = TrainConfig(model="x", output_dir=tmp_path / "out")
    assert event_writer(config, "teacher") is None
    assert not list(tmp_path.iterdir())
