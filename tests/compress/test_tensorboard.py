"""Live curves."""

from __future__ import annotations

import pytest

from compress.tensorboard import event_writer
from compress.train import TrainConfig


def test_losses_are_in_the_event_file(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = TrainConfig(model="x", output_dir=tmp_path / "out", report_to="tensorboard")
    write = event_writer(config, "teacher")
    write({"step": 1, "loss": 0.5})
    write({"step": 2, "loss": 0.25})
    write.close()
    events = accumulator.EventAccumulator(str(tmp_path / "out.runs" / "teacher"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]


def test_nothing_is_written_unasked(tmp_path):
    config = TrainConfig(model="x", output_dir=tmp_path / "out")
    assert event_writer(config, "teacher") is None
    assert not list(tmp_path.iterdir())
