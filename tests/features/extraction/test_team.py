"""A team of workers that die at will: rows are done again, and nothing waits forever."""

import threading
import time
from concurrent import futures

import numpy as np
import pytest

from edgebert.errors import BackendRunError, DataError
from edgebert.features.model import Embedded
from edgebert.features.pieces import entries_of
from edgebert.features.rows import Row
from edgebert.features.summary import Clock
from edgebert.features.team import DEATHS, Team, WorkerDiedError


class Worker:
    """Gives a text's length and the number of texts in its block as its vector.

    It dies of ``dies``, a function of the texts of a block.
    """

    started, stopped, blocks = 0, 0, []
    dies = staticmethod(lambda texts: False)  # noqa: ARG005

    def __init__(self):
        type(self).started += 1
        self.alive = True

    def open(self):
        pass

    def embed(self, rows):
        assert self.alive
        texts = [row.text for row in rows]
        self.blocks.append(texts)
        if self.dies(texts):
            self.alive = False
            raise WorkerDiedError("signal 9")
        entries = [entries_of(row, [(0, len(row.text))]) for row in rows]
        vectors = np.array([[len(text), len(rows)] for text in texts], dtype=np.float32)
        return Embedded(list(rows), entries, vectors, tokens=7), {"tokenize": 1.0, "run": 2.0}

    def stop(self):
        type(self).stopped += 1


@pytest.fixture
def kind():
    return type("Kind", (Worker,), {"blocks": []})


@pytest.fixture
def team(kind):
    team = Team(kind, Clock(), count=1)
    yield team
    team.stop()


def rows_of(*texts):
    return [Row(place="same", key=f"k{i}", text=text) for i, text in enumerate(texts)]


def test_a_worker_that_lives_is_used_again_and_its_seconds_are_counted(kind):
    clock = Clock()
    team = Team(kind, clock, count=1)
    for _ in range(3):
        team.submit(rows_of("a")).result(10)
    team.stop()
    assert (kind.started, kind.stopped) == (1, 1)
    assert kind.blocks == [["a"]] * 3
    assert (clock.read()["tokenize"], clock.read()["run"]) == (3.0, 6.0)


def test_a_block_is_done_again_whole_when_a_worker_dies(kind, team):
    kind.dies = lambda self, texts: len(self.blocks) < DEATHS  # noqa: ARG005
    done = team.submit(rows_of("a", "bb")).result(10)
    assert kind.blocks == [["a", "bb"]] * DEATHS
    np.testing.assert_array_equal(done.vectors, [[1, 2], [2, 2]])
    assert kind.started == DEATHS


def test_a_row_that_kills_every_worker_is_bad_and_the_others_are_run_as_one_block(kind, team):
    kind.dies = lambda self, texts: "bad" in texts  # noqa: ARG005
    done = team.submit(rows_of("a", "bad", "bb", "ccc")).result(10)
    [(row, why)] = done.bad
    assert (row.key, why) == ("k1", f"{DEATHS} workers died of it (signal 9)")
    assert [row.key for row in done.rows] == ["k0", "k2", "k3"]
    np.testing.assert_array_equal(done.vectors, [[1, 3], [2, 3], [3, 3]])
    assert done.tokens == 7


def test_deaths_by_chance_leave_a_block_its_own_vectors(kind, team):
    kind.dies = lambda self, texts: len(texts) > 1 and len(self.blocks) <= DEATHS
    done = team.submit(rows_of("a", "bb")).result(10)
    assert done.bad == []
    np.testing.assert_array_equal(done.vectors, [[1, 2], [2, 2]])


def test_rows_that_are_too_many_at_once_are_done_one_by_one(kind, team):
    kind.dies = lambda self, texts: len(texts) > 1  # noqa: ARG005
    done = team.submit(rows_of("a", "bb")).result(10)
    assert done.bad == []
    np.testing.assert_array_equal(done.vectors, [[1, 1], [2, 1]])
    assert [entries[0].key for entries in done.entries] == ["k0", "k1"]
    assert done.tokens == 14


def test_bad_rows_alone_are_no_failure(kind, team):
    kind.dies = lambda self, texts: "bad" in texts  # noqa: ARG005
    done = team.submit(rows_of("bad", "bad")).result(10)
    assert (len(done.bad), done.rows, len(done.vectors)) == (2, [], 0)


def test_workers_that_die_of_any_text_end_the_run(kind, team):
    kind.dies = lambda self, texts: True  # noqa: ARG005
    with pytest.raises(BackendRunError, match="die whatever they are given"):
        team.submit(rows_of("a", "bb")).result(10)


def test_workers_that_are_never_ready_end_the_run(kind, team):
    def die(self):  # noqa: ARG001
        raise WorkerDiedError("exit code 7")

    kind.open = die
    with pytest.raises(BackendRunError, match=f"{DEATHS} workers ended before .*exit code 7"):
        team.submit(rows_of("a")).result(10)
    assert kind.started == DEATHS


def test_a_worker_that_can_not_be_begun_ends_the_run():
    def start():
        raise OSError("no more processes")

    team = Team(start, Clock(), count=1)
    with pytest.raises(OSError, match="no more processes"):
        team.submit(rows_of("a")).result(10)
    team.stop()


def test_a_worker_that_finds_no_room_holds_up_no_row(kind):
    """The second one waits for room until the end, and the first one does all."""
    room = threading.Event()

    def wait(self):
        if self.number > 1:
            room.wait(10)
            raise WorkerDiedError("stopped")

    def begin():
        worker = kind()
        worker.number = kind.started
        return worker

    kind.open, kind.stop = wait, lambda self: room.set()  # noqa: ARG005
    team = Team(begin, Clock(), count=2)
    done = [team.submit(rows_of(text)) for text in "abcdef"]
    assert [one.result(5).rows[0].text for one in done] == list("abcdef")
    start = time.monotonic()
    team.stop()
    assert time.monotonic() - start < 5


def test_an_error_of_ours_ends_the_run_at_once(kind, team):
    def wrong(self, rows):  # noqa: ARG001
        raise DataError("so it is")

    kind.embed = wrong
    with pytest.raises(DataError, match="so it is"):
        team.submit(rows_of("a")).result(10)
    assert kind.started == 1


def test_a_stop_ends_blocks_that_are_under_way_and_starts_no_worker_anew(kind):
    begun, ended = threading.Event(), threading.Event()

    def hang(self, rows):  # noqa: ARG001
        begun.set()
        ended.wait(10)
        raise WorkerDiedError("killed")

    kind.embed = hang
    kind.stop = lambda self: ended.set()  # noqa: ARG005
    team = Team(kind, Clock(), count=1)
    first, second = team.submit(rows_of("a")), team.submit(rows_of("b"))
    begun.wait(10)
    start = time.monotonic()
    team.stop()
    assert time.monotonic() - start < 5
    for future in (first, second):
        with pytest.raises(futures.CancelledError):
            future.result(10)
    assert kind.started == 1


def test_blocks_are_run_at_once_by_as_many_workers(kind):
    together = threading.Barrier(3)

    def meet(self, rows):
        together.wait(10)
        return Worker.embed(self, rows)

    kind.embed = meet
    team = Team(kind, Clock(), count=3)
    for future in [team.submit(rows_of("a")) for _ in range(3)]:
        assert len(future.result(10).rows) == 1
    team.stop()
    assert (kind.started, kind.stopped) == (3, 3)
