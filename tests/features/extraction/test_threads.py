"""Reading and computing ahead: in order, within bounds, and without holding up a stop."""

import threading
import time

import pytest

from edgebert.features import extract, pipeline
from edgebert.features.rows import Columns
from edgebert.features.sources import Source
from edgebert.features.summary import Clock, Progress
from edgebert.features.threads import Worker, read_ahead, result_of


def nothing():
    pass


def test_items_come_in_order_and_no_more_than_so_many_ahead():
    made = []

    def items():
        for number in range(50):
            made.append(number)
            yield number

    for number in read_ahead(items(), most=3, check=nothing):
        time.sleep(0.002)
        assert len(made) <= number + 6  # this one, 3 that wait, one in each hand
    assert made == list(range(50))


def test_an_error_of_the_reader_comes_behind_what_was_read():
    def items():
        yield 1
        raise OSError("gone")

    stream = read_ahead(items(), most=3, check=nothing)
    assert next(stream) == 1
    with pytest.raises(OSError, match="gone"):
        next(stream)


def test_a_reader_that_waits_for_ever_does_not_hold_up_a_stop():
    def items():
        threading.Event().wait()
        yield 1

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(read_ahead(items(), most=1, check=stop))


def test_a_job_s_own_timeout_is_its_error():
    worker = Worker("test")

    def job():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        result_of(worker.submit(job), nothing)
    worker.stop()


def test_a_stopped_worker_begins_no_further_job():
    worker, began = Worker("test"), threading.Event()
    go = threading.Event()

    def first():
        began.set()
        go.wait()

    running = worker.submit(first)
    waiting = worker.submit(began.clear)
    began.wait()
    worker.stop()
    go.set()
    running.result()
    assert waiting.cancelled()
    assert began.is_set()


def test_blocks_are_cut_by_rows_and_by_characters(monkeypatch):
    monkeypatch.setattr(pipeline, "BLOCK_ROWS", 3)
    monkeypatch.setattr(pipeline, "BLOCK_CHARACTERS", 10)
    rows = ["a", "b", "c", "d", "e" * 9, "f", "g" * 30, "h"]
    blocks = pipeline.blocks_of(Source(rows, Columns()), Clock())
    texts = [[row.text[0] for row in block.rows] for block in blocks]
    assert texts == [["a", "b", "c"], ["d", "e"], ["f", "g"], ["h"]]


def test_a_source_is_read_in_bounded_memory(embedder, tmp_path, monkeypatch):
    """What was read and isn't stored yet is a few blocks, however long the source is."""
    monkeypatch.setattr(pipeline, "BLOCK_ROWS", 4)
    read, stored, most = 0, 0, 0
    write = pipeline.Journal.write

    def counted(self, marks, *parts):
        nonlocal stored
        stored += len(marks)
        write(self, marks, *parts)

    def rows():
        nonlocal read, most
        for _ in range(200):
            read += 1
            most = max(most, read - stored)
            yield "good film"

    monkeypatch.setattr(pipeline.Journal, "write", counted)
    assert extract(embedder, rows(), f"sqlite:{tmp_path / 's.db'}").added == 200
    # in blocks: 2 + 1 that are computed, 2 that wait, one in the hand of each thread
    assert most <= 4 * 7


def test_progress_tells_rate_and_time_left(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    caplog.set_level("INFO")
    progress = Progress()
    progress.tell(1000, 0.2, idle=True)  # a run that goes on: these are there already
    now[0] = 110.0
    progress.tell(1500, 0.3, idle=False)
    assert caplog.messages == ["1500 rows, 50 a second, 30%, 70 s left"]
