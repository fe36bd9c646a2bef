"""Extraction into every kind of store: the same entries and vectors, whatever happens meanwhile."""

import uuid
from contextlib import suppress

import numpy as np
import pytest

from edgebert.errors import DataError, InputError
from edgebert.features import extract, open_store
from edgebert.features.journal import Journal
from edgebert.features.stores import STORES
from tests.features.extraction.memory_store import PowerCut, held

OLD = [{"id": f"k{i}", "text": f"good film {'abcdefghij'[i]}", "n": i} for i in range(10)]
NEW = [{**row, "text": "very dull"} if row["id"] in ("k0", "k5") else row for row in OLD[:9]]
COLUMNS = {"id_column": "id", "metadata_columns": ("n",)}


@pytest.fixture(
    params=[
        pytest.param(kind, marks=() if kind == "sqlite" else pytest.mark.stores) for kind in STORES
    ]
)
def uri(request, tmp_path):
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        return server.url(table=f"t_{uuid.uuid4().hex[:12]}")
    return f"{request.param}:{tmp_path / 'store'}"


def found(uri):
    with open_store(uri, read_only=True) as store:
        return held(store)


def test_every_store_holds_the_same_after_a_run_a_rerun_and_an_update(
    embedder,
    uri,
    tmp_path,
    small_blocks,  # noqa: ARG001
):
    plain = f"sqlite:{tmp_path / 'plain.db'}"
    assert extract(embedder, OLD, uri, **COLUMNS).held == 10
    assert extract(embedder, OLD, uri, **COLUMNS).entries == 0
    extract(embedder, OLD, plain, **COLUMNS)
    assert found(uri) == found(plain)
    summary = extract(embedder, NEW, uri, update=True, **COLUMNS)
    assert (summary.changed, summary.removed, summary.held) == (2, 1, 9)
    extract(embedder, NEW, plain, update=True, **COLUMNS)
    assert found(uri) == found(plain)


def test_a_run_without_a_row_that_can_be_used_leaves_no_store(embedder, uri, tmp_path):
    with pytest.raises(DataError, match="no rows"):
        extract(embedder, [], uri)
    assert extract(embedder, [""], uri, quarantine=tmp_path / "bad").held == 0
    with pytest.raises(InputError, match="Extract into it first"), open_store(uri, read_only=True):
        pass
    assert extract(embedder, OLD, uri, role="query", **COLUMNS).added == 10


def test_every_store_has_room_for_any_id(embedder, uri):
    random = np.random.default_rng(0)  # or an index would make it short
    longest = "".join(map(chr, random.integers(0x4E00, 0x9FFF, 833))) + "a"  # of 2,500 bytes
    keys = sorted(
        [longest, "007", "7", " 7", "e\u0301", "\u00e9", "tab\tline\n", "' OR 1=1 --", "%_\\"]
    )
    assert extract(embedder, [(key, "good") for key in keys], uri).added == len(keys)
    assert extract(embedder, [(key, "good") for key in keys], uri).unchanged == len(keys)
    with open_store(uri, read_only=True) as store:
        entries = store.entries(list(store.ids()))
        assert sorted(entry.key for entry in entries) == keys
        hits = [store.search(store.get([one.id])[0], 9, where={"key": one.key}) for one in entries]
    assert [[hit.entry for hit in some] for some in hits] == [[entry] for entry in entries]


def test_a_second_run_at_once_is_refused_by_every_store(embedder, uri):
    def rows():
        yield OLD[0]
        with pytest.raises(InputError, match="Another run is writing"):
            extract(embedder, OLD, uri, **COLUMNS)
        yield from OLD[1:]

    assert extract(embedder, rows(), uri, **COLUMNS).added == 10
    assert extract(embedder, OLD, uri, **COLUMNS).unchanged == 10  # the lock is free again


def test_a_store_made_anew_takes_the_place_of_every_store_that_is_files(embedder, uri, tmp_path):
    extract(embedder, OLD, uri, **COLUMNS)
    anew = {"role": "query", "into_new": True, **COLUMNS}
    if uri.startswith("postgresql"):
        with pytest.raises(InputError, match="isn't offered for postgresql"):
            extract(embedder, NEW, uri, **anew)
        return
    assert extract(embedder, NEW, uri, **anew).held == 9
    plain = f"sqlite:{tmp_path / 'plain.db'}"
    extract(embedder, NEW, plain, role="query", **COLUMNS)
    assert found(uri) == found(plain)
    assert extract(embedder, NEW, uri, role="query", **COLUMNS).unchanged == 9  # with its journal


def test_every_store_holds_the_same_after_a_cut_between_any_two_steps(
    embedder,
    uri,
    tmp_path,
    small_blocks,  # noqa: ARG001
    monkeypatch,
):
    """The steps of an update: the journal's mark, the new entries, the old ones, the mark."""
    with open_store(uri) as store:
        kind = type(store)
    left = [0]

    def cut(name, method):
        def call(self, *arguments):
            left[0] -= 1
            if left[0] == 0:
                raise PowerCut(name)
            return method(self, *arguments)

        return call

    extract(embedder, OLD, uri, **COLUMNS)
    for owner, name in ((Journal, "put"), (kind, "write"), (kind, "delete")):
        monkeypatch.setattr(owner, name, cut(name, getattr(owner, name)))
    for step in range(1, 5):
        rows = [{**OLD[0], "text": f"bad {step}"}, *OLD[1:]]
        left[0] = step
        with suppress(PowerCut):
            extract(embedder, rows, uri, update=True, **COLUMNS)
        left[0] = 0
        extract(embedder, NEW if step == 4 else rows, uri, update=True, **COLUMNS)
    plain = f"sqlite:{tmp_path / 'plain.db'}"
    extract(embedder, NEW, plain, **COLUMNS)
    assert [(entry, len(vector)) for entry, vector in found(uri)] == [
        (entry, len(vector)) for entry, vector in found(plain)
    ]
