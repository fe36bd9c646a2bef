"""Every kind of store, killed at a random moment while it's made, and while it's updated."""

import random

import pytest

from edgebert.features.stores import STORES
from tests.features.extraction.killing import Trial, state_of, write_inputs

KILLS = 1  # of each; `tests.features.extraction.kills` does twenty
ROWS = 128
SECONDS = 1.5  # that a run takes, about


@pytest.fixture
def folder(embedder_dir, tmp_path):
    (tmp_path / "bundle").symlink_to(embedder_dir)
    write_inputs(tmp_path, ROWS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == "sqlite" else pytest.mark.stores) for kind in STORES],
)
def test_a_store_that_was_killed_is_bit_for_bit_one_that_nobody_killed(kind, folder, request):
    """Ids, texts, metadata, vectors, the journal, what files there are; a rerun adds nothing."""
    server = request.getfixturevalue("postgres") if kind == "postgresql" else None
    made = Trial(kind, folder, server)
    updated = Trial(kind, folder, server, update=True)
    draw = random.Random(kind)
    at = made.round(KILLS, SECONDS, draw)
    assert updated.round(KILLS, SECONDS, draw, at=at) == at
    assert made.killed.total() + updated.killed.total() > 0
    place, uri = made.new_place()
    made.extract("before", uri)
    updated.extract("after", uri, update=True)
    updated.check(*at, state_of(place, uri))
