from __future__ import annotations

import io
import logging

import pytest

from compress.training.progress import Progress, format_seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_time_left_follow_from_the_steps_of_this_run():
    clock = Clock()
    progress = Progress(100, label="distill", done=40, stream=io.StringIO(), clock=clock)
    progress._done = 60
    assert progress.describe(10.0) == "distill: 60/100 steps, 2.0/s, 20s left"


def test_nothing_is_written_where_there_is_no_terminal(caplog):
    clock, stream = Clock(), io.StringIO()
    progress = Progress(100, label="distill", stream=stream, clock=clock)
    with caplog.at_level(logging.INFO):
        for second in range(61):
            clock.now = float(second)
            progress.update(second)
    assert stream.getvalue() == ""
    assert [r.getMessage() for r in caplog.records] == [
        "distill: 30/100 steps, 1.0/s, 1m 10s left",
        "distill: 60/100 steps, 1.0/s, 40s left",
    ]


def test_a_terminal_gets_one_line_that_is_drawn_over():
    clock, stream = Clock(), Terminal()
    with Progress(4, label="distill", stream=stream, clock=clock) as progress:
        clock.now = 1.0
        progress.update(2, lambda: "loss 0.5000")
    text = stream.getvalue()
    assert "\n" not in text
    assert "[############............] distill: 2/4 steps, 2.0/s, 1s left, loss 0.5000" in text
    assert text.endswith("\r\x1b[K")


def test_a_note_is_made_only_when_it_is_shown():
    clock = Clock()
    progress = Progress(4, label="distill", stream=Terminal(), clock=clock)
    progress.update(1, lambda: pytest.fail("was made"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(7.2, "7s"), (200, "3m 20s"), (3900, "1h 05m"), (59.7, "1m 00s")]
)
def test_durations_read_well(seconds, text):
    assert format_seconds(seconds) == text
