"""The journal of a search: what a killed run left is gone on with, and who is stopped."""

from __future__ import annotations

import json

import pytest

from compress.searching.budget import Budget, Cost
from compress.searching.finals import next_final
from compress.searching.journal import JOURNAL_NAME, PEERS, Journal
from compress.searching.records import Tried
from compress.searching.trials import value_of

DIMENSIONS = {"L": 6, "H": 7}


def tried(number: int, *, kept: float | None = 0.9, size_mb: float = 1.0, **changes) -> Tried:
    own = {
        "student": f"L={number + 1}",
        "vocab_size": 9,
        "outcome": "trained",
        "precision": "int8",
        "cost": Cost(size_bytes=int(size_mb * 1e6), latency_ms=size_mb),
    }
    return Tried(number=number, kept=kept, **{**own, **changes})


def run(journal: Journal, count: int) -> list[dict[str, int]]:
    found = []
    for _ in range(count):
        trial, places = journal.ask(DIMENSIONS)
        found.append(places)
        journal.close(trial, tried(trial.number), value=places["L"] / 10 - places["H"] / 20)
    return found


def test_a_journal_that_is_opened_again_asks_for_what_it_would_have_asked_for(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    unbroken = run(Journal(tmp_path / "whole", seed=7), 16)
    parts = [run(Journal(tmp_path / "parts", seed=7), count) for count in (3, 9, 4)]
    assert parts[0] + parts[1] + parts[2] == unbroken
    assert len({tuple(places.values()) for places in unbroken[:8]}) > 1


def test_what_a_trial_came_to_is_read_back(tmp_path):
    journal = Journal(tmp_path, seed=0)
    first, second = tried(0), tried(1, kept=None, outcome="dropped", reason="too large", cost=None)
    for one, value in ((first, 0.5), (second, None)):
        trial, _ = journal.ask(DIMENSIONS)
        journal.close(trial, one, value=value)
    again = Journal(tmp_path, seed=0)
    assert again.tried() == [first, second]
    assert [again.value(0), again.value(1)] == [0.5, None]


def test_the_queue_is_filled_once_and_comes_first(tmp_path):
    starts = [{"L": 5, "H": 6}, {"L": 0, "H": 1}]
    Journal(tmp_path, seed=0).seed_with(starts)
    journal = Journal(tmp_path, seed=0)
    journal.seed_with(starts)
    assert run(journal, 3)[:2] == starts
    assert run(journal, 1)[0] not in starts


def test_a_trial_in_flight_is_gone_on_with(tmp_path):
    journal = Journal(tmp_path, seed=0)
    run(journal, 1)
    trial, places = journal.ask(DIMENSIONS)
    trial.report(0.7, step=1)
    again = Journal(tmp_path, seed=0)
    ((found, its_places),) = again.unfinished(DIMENSIONS)
    assert (found.number, its_places) == (1, places)
    assert again.measured(1) == {1}
    again.close(found, tried(1), value=0.8)
    assert again.unfinished(DIMENSIONS) == []
    assert [one.number for one in again.tried()] == [0, 1]


def test_half_of_a_line_and_the_lock_of_a_killed_process_are_removed(tmp_path):
    run(Journal(tmp_path, seed=0), 2)
    file = tmp_path / JOURNAL_NAME
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"op_code":4,"worker')
    file.with_name(JOURNAL_NAME + ".lock").symlink_to(file)
    again = Journal(tmp_path, seed=0)
    assert len(again.tried()) == 2
    lines = file.read_text().splitlines()
    assert file.read_bytes().startswith(whole)
    assert all(isinstance(json.loads(line), dict) for line in lines)
    run(again, 1)  # would wait for half a minute for the lock


@pytest.mark.parametrize(
    ("kept", "paid", "stopped"),
    [(0.5, 1.0, True), (0.9, 1.0, False), (0.5, 0.2, False), (0.5, 5.0, True)],
    ids=["worse", "better", "worse but cheaper", "worse and dearer"],
)
def test_the_worse_half_of_those_that_take_no_more_is_stopped(tmp_path, kept, paid, stopped):
    journal = Journal(tmp_path, seed=0)
    for place in range(PEERS):
        trial, _ = journal.ask(DIMENSIONS)
        trial.set_user_attr("paid", 1.0)
        trial.report(0.6 + place / 10, step=1)  # median 0.75
        journal.close(trial, tried(place), value=0.7)
    trial, _ = journal.ask(DIMENSIONS)
    trial.set_user_attr("paid", paid)
    trial.report(kept, step=1)
    assert trial.should_prune() is stopped


def test_nobody_is_stopped_before_there_are_enough_to_compare_with(tmp_path):
    journal = Journal(tmp_path, seed=0)
    for place in range(PEERS):
        trial, _ = journal.ask(DIMENSIONS)
        trial.set_user_attr("paid", 0.0)
        trial.report(0.9 - place / 10, step=1)
        assert not trial.should_prune()


SCORE = Budget(max_size_bytes=10**7, max_latency_ms=9.0)
SMALLEST = Budget(max_drop=0.05, max_latency_ms=9.0)
SHORT = [
    tried(0, kept=0.80, size_mb=1),
    tried(1, kept=0.90, size_mb=2),
    tried(2, kept=0.95, size_mb=4),
    tried(3, kept=0.97, size_mb=8),
]


def next_of(budget: Budget, kept: dict[int, float]) -> int | None:
    left = [one for one in SHORT if one.number not in kept]
    found = next_final(budget, left, kept, SHORT)
    return None if found is None else found.number


def test_where_score_counts_the_best_go_first():
    assert next_of(SCORE, {}) == 3
    assert next_of(SCORE, {3: 0.99}) == 2


def test_where_size_counts_the_smallest_that_may_do_goes_first():
    assert next_of(SMALLEST, {}) == 2  # 0.6 x 5 % is lost at the end, 0.6 x 10 % would be too much


def test_a_success_sends_on_to_a_smaller_one_if_that_may_do():
    assert next_of(SMALLEST, {2: 0.98}) == 1  # 0.4 of the loss was left: 4 % of 10 %
    assert next_of(SMALLEST, {2: 0.955}) is None  # 0.9 was left


def test_a_failure_sends_on_to_a_larger_one():
    assert next_of(SMALLEST, {2: 0.94}) == 3
    assert next_of(SMALLEST, {2: 0.94, 3: 0.94}) == 1  # the best that is left, after all


def test_where_score_counts_a_trial_is_worth_what_it_kept():
    assert value_of(SCORE, SHORT[1]) == 0.90
    assert value_of(SCORE, tried(9, kept=None, outcome="stopped")) is None


def test_where_size_counts_the_smaller_of_those_that_may_do_is_worth_more():
    values = [value_of(SMALLEST, one) for one in SHORT]
    assert values[0] == pytest.approx(0.95 * -1 + 1 - 0.6 * 0.2)  # 88 % at the end, not 95
    assert values[1] == pytest.approx(1 - 0.6 * 0.1 - 0.95)
    assert values[2] == pytest.approx(1 / 5)  # 4 MB
    assert values[3] == pytest.approx(1 / 9)  # 8 MB
