"""`edgebert serve`: rows of many requests in one engine's rounds."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgebert.engines.batching import pad
from edgebert.errors import BackendError, BackendRunError
from edgebert.serving.batcher import AbandonedError, Batcher, Call
from edgebert.text.tokenizer import Encoding
from tests.features.served import WAIT_SECONDS, wait_until

SICK = 666


def row(first, length=2):
    """A text whose first token says which it is."""
    ids = np.array([first] + [1] * (length - 1), dtype=np.int64)
    zeros = np.zeros(length, dtype=np.int64)
    return Encoding(ids, zeros, [(0, 0)] * length, zeros, zeros, zeros, dropped_tokens=first % 7)


class SlowEngine:
    """Gives each row its first token back, one round at each `step`; keeps what it was given."""

    def __init__(self):
        self.rounds = []
        self.told = []
        self._steps = threading.Semaphore(0)

    def step(self, rounds=1):
        self._steps.release(rounds)

    def run_all(self, encodings, *, pad_id, max_tokens):
        assert max_tokens == 8
        self.rounds.append([int(one.input_ids[0]) for one in encodings])
        assert self._steps.acquire(timeout=WAIT_SECONDS)
        if SICK in self.rounds[-1]:
            raise BackendRunError("sick")
        batch = pad(encodings, pad_id=pad_id)
        yield list(range(len(encodings))), batch, {"first": batch.input_ids[:, :1].astype("f4")}


@pytest.fixture
def engine():
    return SlowEngine()


@pytest.fixture
def batcher(engine):
    batcher = Batcher(engine, pad_id=0, max_tokens=8, on_batch=engine.told.append)
    yield batcher
    engine.step(100)
    assert batcher.close()


@pytest.fixture
def ask(batcher, engine):
    """Hand rows over in a thread of their own, and wait until they are there."""
    with ThreadPoolExecutor(8) as pool:

        def collect(call, rows):
            found = {}
            for numbers, batch, outputs in batcher.run(call, rows):
                for place, number in enumerate(numbers):
                    assert batch.input_ids[place, 0] == outputs["first"][place, 0]
                    found[number] = int(outputs["first"][place, 0])
            return [found[i] for i in range(len(rows))]

        def start(rows, call=None):
            call = call or Call()
            future = pool.submit(collect, call, rows)
            wait_until(lambda: call.tokens > 0 or future.done())
            return future

        yield start
        engine.step(100)


@pytest.fixture
def busy(ask, engine):
    """Keep the engine at a first row, so that what comes now waits."""
    first = ask([row(100)])
    wait_until(lambda: len(engine.rounds) == 1)
    return first


def test_a_row_is_run_at_once_when_the_engine_is_idle(ask, engine):
    future = ask([row(5)])
    engine.step()
    assert future.result(WAIT_SECONDS) == [5]
    assert engine.rounds == [[5]]
    wait_until(lambda: [batch.input_ids.tolist() for batch in engine.told] == [[[5, 1]]])


@pytest.mark.usefixtures("busy")
def test_rows_that_waited_are_run_together_up_to_the_tokens_of_a_round(ask, engine):
    futures = [ask([row(i)]) for i in range(6)]
    engine.step(3)
    assert [future.result(WAIT_SECONDS) for future in futures] == [[i] for i in range(6)]
    assert engine.rounds[1:] == [[0, 1, 2, 3], [4, 5]]  # 8 tokens are 4 rows of 2


@pytest.mark.usefixtures("busy")
def test_a_short_request_does_not_wait_for_a_long_one(ask, engine):
    long = ask([row(i) for i in range(20)])
    short = ask([row(50)])
    engine.step(2)
    assert short.result(WAIT_SECONDS) == [50]
    assert engine.rounds[1] == [0, 50, 1, 2]
    assert not long.done()
    engine.step(5)
    assert long.result(WAIT_SECONDS) == list(range(20))


@pytest.mark.usefixtures("busy")
def test_rows_of_one_request_are_run_from_short_to_long_and_come_back_in_order(ask, engine):
    future = ask([row(1, 6), row(2, 3), row(3, 4), row(4, 1)])
    engine.step(3)
    assert future.result(WAIT_SECONDS) == [1, 2, 3, 4]
    assert engine.rounds[1:] == [[4, 2, 3], [1]]


@pytest.mark.usefixtures("busy")
def test_a_row_longer_than_a_round_is_run_alone(ask, engine):
    long, short = ask([row(1, 30)]), ask([row(2)])
    engine.step(3)
    assert (long.result(WAIT_SECONDS), short.result(WAIT_SECONDS)) == ([1], [2])
    assert engine.rounds[1:] == [[1], [2]]


@pytest.mark.usefixtures("busy")
def test_what_nobody_waits_for_is_not_run(ask, engine):
    call = Call()
    gone = ask([row(1), row(2)], call)
    stays = ask([row(3)])
    call.abandon()
    with pytest.raises(AbandonedError):
        gone.result(WAIT_SECONDS)
    engine.step(2)
    assert stays.result(WAIT_SECONDS) == [3]
    assert engine.rounds[1:] == [[3]]


@pytest.mark.usefixtures("busy")
def test_a_sick_row_fails_its_own_request_alone(ask, engine):
    sick = ask([row(SICK), row(1), row(2)])
    well = [ask([row(i)]) for i in (3, 4)]
    engine.step(20)
    assert [future.result(WAIT_SECONDS) for future in well] == [[3], [4]]
    with pytest.raises(BackendRunError, match="sick"):
        sick.result(WAIT_SECONDS)


@pytest.mark.usefixtures("busy")
def test_a_request_that_failed_has_no_more_rows_run(ask, engine):
    sick = ask([row(SICK, 1), *(row(i) for i in range(50))])
    engine.step(20)
    with pytest.raises(BackendRunError):
        sick.result(WAIT_SECONDS)
    assert ask([row(99)]).result(WAIT_SECONDS) == [99]
    assert sum(map(len, engine.rounds)) < 15


def test_closing_fails_what_waits_and_what_comes_later(batcher, busy, ask, engine):
    waiting = ask([row(1)])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    with pytest.raises(BackendError, match="stopping"):
        waiting.result(WAIT_SECONDS)
    engine.step()
    closing.join(WAIT_SECONDS)
    assert busy.result(WAIT_SECONDS) == [100]  # it was in the engine already
    with pytest.raises(BackendError, match="stopping"):
        ask([row(2)]).result(WAIT_SECONDS)


def test_a_call_counts_tokens_and_those_cut_off(ask, engine):
    call = Call()
    future = ask([row(3, 2), row(8, 4)], call)
    engine.step()
    future.result(WAIT_SECONDS)
    assert (call.tokens, call.dropped_of(2)) == (6, [3, 1])
    assert call.dropped_of(1) == [0]  # two windows of one text: nothing is cut off
