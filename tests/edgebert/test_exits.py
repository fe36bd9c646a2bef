"""Texts leave a model at the first exit that is sure, and what goes on is a smaller batch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgebert.engines.exits import ExitChain, entropies, run_exits
from edgebert.types import Batch, HiddenBatch


def batch_of(*rows: list[int]) -> Batch:
    length = max(map(len, rows))
    ids = np.array([row + [0] * (length - len(row)) for row in rows])
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(len(rows), dtype=np.int64))


class Segments:
    """Two labels, three layers: a text whose first id is k has a logit of 9 from layer k on.

    Before that both are alike, so that the entropy is 1. The hidden state is the ids, and each
    layer adds 100. What a layer was given is kept.
    """

    def __init__(self) -> None:
        self.seen: list[list[tuple[int, ...]]] = [[], [], []]
        self.runs = [lambda batch, at=at: self.layer(at, batch) for at in range(3)]

    def layer(self, at, batch):
        self.seen[at].append(batch.input_ids.shape)
        if at == 0:
            assert not isinstance(batch, HiddenBatch)
            hidden = batch.input_ids[:, :, None].astype(np.float32)
        else:
            hidden = batch.hidden_states + 100
            real = batch.attention_mask == 1
            # each row is still with its own tokens
            np.testing.assert_array_equal(hidden[real][:, 0] - 100 * at, batch.input_ids[real])
        sure = batch.input_ids[:, 0] <= at + 1
        logits = np.stack([np.where(sure, 9.0, 0.0), np.zeros(len(sure))], axis=1)
        return {"logits": logits.astype(np.float32), "last_hidden_state": hidden}


def test_the_entropy_is_that_of_the_softmax_in_units_of_the_largest():
    logits = np.array([[0, 0, 0], [math.log(2), 0, 0], [200, 0, 0]], dtype=np.float32)
    half = 0.5 * math.log(2) + 2 * 0.25 * math.log(4)  # of 1/2, 1/4, 1/4
    np.testing.assert_allclose(entropies(logits), [1, half / math.log(3), 0], atol=1e-7)


def test_each_row_leaves_at_its_first_sure_exit_and_keeps_its_place():
    logits, layers = run_exits(Segments().runs, batch_of([3, 5], [1], [2, 6, 7], [1, 8]), 0.5)
    np.testing.assert_array_equal(layers, [3, 1, 2, 1])
    np.testing.assert_array_equal(logits, [[9, 0]] * 4)


def test_what_goes_on_are_the_rows_that_stay_cut_to_the_longest_of_them():
    segments = Segments()
    run_exits(segments.runs, batch_of([3, 5], [1, 4, 4, 4, 4], [2, 6, 7], [1, 8]), 0.5)
    assert segments.seen == [[(4, 5)], [(2, 3)], [(1, 2)]]


def test_a_segment_that_no_row_needs_is_not_run():
    segments = Segments()
    run_exits(segments.runs, batch_of([1], [1, 9]), 0.5)
    assert segments.seen[1:] == [[], []]


@pytest.mark.parametrize(("threshold", "layer"), [(0.0, 3), (1.0, 1)])
def test_no_row_leaves_at_a_threshold_of_0_and_all_at_the_first_exit_at_1(threshold, layer):
    _, layers = run_exits(Segments().runs, batch_of([1], [3, 4]), threshold)
    np.testing.assert_array_equal(layers, [layer, layer])


def test_a_row_next_to_the_threshold_leaves_where_it_does_alone():
    """Beside another row its logit is off by 1e-6, enough to be on the other side."""
    alone = np.array([[1.0, 0.0]], dtype=np.float32)

    def first(batch):
        off = 1e-6 if len(batch.input_ids) > 1 else 0.0
        logits = np.tile(alone - np.float32([off, 0]), (len(batch.input_ids), 1))
        return {"logits": logits, "last_hidden_state": np.zeros((*batch.input_ids.shape, 1))}

    def last(batch):
        return {"logits": np.tile(np.float32([[0, 5]]), (len(batch.input_ids), 1))}

    threshold = float(entropies(alone)[0]) + 1e-9  # alone it leaves, beside another it wouldn't
    assert entropies(alone - np.float32([[1e-6, 0]]))[0] > threshold
    for batch in (batch_of([7]), batch_of([7], [7, 7])):
        logits, layers = run_exits([first, last], batch, threshold)
        assert set(layers) == {1}
        np.testing.assert_array_equal(logits, np.repeat(alone, len(layers), axis=0))


class Plain:
    """A segment as a backend."""

    engine, inputs = "plain 1", ["input_ids"]

    def __init__(self, run) -> None:
        self.run = run

    def close(self) -> None:
        self.run = None


def test_a_chain_gives_the_logits_of_every_exit_of_every_row():
    chain = ExitChain([Plain(run) for run in Segments().runs])
    found = chain.run(batch_of([3, 5], [1]))["logits"]
    np.testing.assert_array_equal(found, [[0, 0, 0, 0, 9, 0], [9, 0, 9, 0, 9, 0]])


def test_rows_are_taken_with_their_hidden_states_cut_or_padded():
    batch = HiddenBatch(
        *vars(batch_of([5, 6, 7], [8])).values(),
        hidden_states=np.arange(6, dtype=np.float32).reshape(2, 3, 1),
    )
    cut = batch.take(np.array([1]), 1)
    assert (cut.input_ids.tolist(), cut.hidden_states.tolist()) == ([[8]], [[[3.0]]])
    padded = batch.take(np.array([0, 0]), 4)
    assert padded.attention_mask.tolist() == [[1, 1, 1, 0]] * 2
    assert padded.hidden_states[1, :, 0].tolist() == [0.0, 1.0, 2.0, 0.0]
