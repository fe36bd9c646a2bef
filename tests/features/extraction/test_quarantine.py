"""Rows that can't be used: each is told with why, and costs no other row."""

import json
from dataclasses import replace

import numpy as np
import pytest

from edgebert.errors import BackendRunError, DataError, InputError
from edgebert.features import extract, open_store
from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle


@pytest.fixture
def uri(tmp_path, small_blocks):  # noqa: ARG001
    return f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture
def sick(tmp_path):
    """A bundle whose model gives infinity for texts with ``bad``."""
    folder = tmp_path / "sick"
    write_bundle(folder, task="feature-extraction", sick="bad", max_length=16)
    with Runtime(folder, threads=1, self_test="off") as runtime:
        yield runtime


def quarantined(tmp_path):
    lines = (tmp_path / "store.db.quarantine.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def keys(uri):
    with open_store(uri) as store:
        return sorted(entry.key for entry in store.entries(list(store.ids())))


def test_every_kind_of_bad_row_is_written_down_with_its_place_and_why(embedder, uri, tmp_path):
    rows = [("a", "good"), ("b", ""), ("c", None), ("d", 5), ("e", "x\ud800"), (None, "bad")]
    summary = extract(embedder, [*rows, ("f", "film")], uri)
    assert (summary.rows, summary.added, summary.quarantined) == (7, 2, 5)
    assert summary.quarantine == str(tmp_path / "store.db.quarantine.jsonl")
    assert [(row["key"], row["place"], row["reason"]) for row in quarantined(tmp_path)] == [
        ("b", "rows:2", "the text is empty"),
        ("c", "rows:3", "the text is missing"),
        ("d", "rows:4", "the text is of type int, not a string"),
        ("e", "rows:5", "the text is not UTF-8 at character 1"),
        (None, "rows:6", "the id is missing"),
    ]
    assert keys(uri) == ["a", "f"]


def test_a_row_whose_vector_is_infinite_costs_no_other_row(sick, uri, tmp_path):
    rows = [("a", "good"), ("b", "very bad"), ("c", "film"), ("d", "dull"), ("e", "fun")]
    summary = extract(sick, rows, uri)
    assert (summary.added, summary.quarantined) == (4, 1)
    assert keys(uri) == ["a", "c", "d", "e"]
    [row] = quarantined(tmp_path)
    assert (row["key"], row["text"]) == ("b", "very bad")
    assert "NaN or infinity" in row["reason"]
    again = extract(sick, rows, uri)  # it is tried again, and is bad again
    assert (again.added, again.unchanged, again.quarantined) == (0, 4, 1)


def test_bad_rows_alone_are_no_failure_of_the_engine(sick, uri):
    assert extract(sick, ["bad", "bad bad"], uri).quarantined == 2


def test_an_engine_that_always_fails_stops_the_run(sick, uri, monkeypatch):
    def broken(batch):  # noqa: ARG001
        raise BackendRunError("out of memory")

    monkeypatch.setattr(sick._engine, "run", broken)
    with pytest.raises(BackendRunError, match="out of memory"):
        extract(sick, ["good", "fun"], uri)
    monkeypatch.undo()
    assert extract(sick, ["good", "fun"], uri).added == 2


def test_a_row_that_gets_no_vector_is_bad_and_its_neighbours_keep_theirs(
    embedder, uri, tmp_path, monkeypatch
):
    """An engine that gives fewer rows than it was asked for, once a text has ``dull``."""
    dull = int(embedder.tokenize(["dull"]).input_ids[0, 1])
    run = embedder._engine.run

    def fewer(batch):
        kept = ~(batch.input_ids == dull).any(axis=1)
        return {name: values[kept] for name, values in run(batch).items()}

    rows = ["good film", "dull film", "very bad", "fun"]
    expected = embedder.encode(rows, role="document", batch_size=1)
    monkeypatch.setattr(embedder._engine, "run", fewer)
    summary = extract(embedder, rows, uri)
    assert (summary.added, summary.quarantined) == (3, 1)
    assert [row["key"] for row in quarantined(tmp_path)] == ["rows:2"]
    with open_store(uri) as store:
        ids = list(store.ids())
        for entry, vector in zip(store.entries(ids), store.get(ids), strict=True):
            number = int(entry.key.removeprefix("rows:"))
            np.testing.assert_allclose(vector, expected[number - 1], atol=1e-6)
    monkeypatch.undo()
    assert extract(embedder, rows, uri).added == 1  # only what was stored was marked


def test_an_engine_that_gives_one_row_for_all_gives_no_row_the_vector_of_another(
    embedder, uri, monkeypatch
):
    rows = ["good film", "dull film", "very bad"]
    expected = embedder.encode(rows, role="document", batch_size=1)
    run = embedder._engine.run

    def one(batch):
        return {name: values[:1] for name, values in run(batch).items()}

    monkeypatch.setattr(embedder._engine, "run", one)
    assert extract(embedder, rows, uri).added == 3  # each was run again by itself
    with open_store(uri) as store:
        ids = list(store.ids())
        for entry, vector in zip(store.entries(ids), store.get(ids), strict=True):
            number = int(entry.key.removeprefix("rows:"))
            np.testing.assert_allclose(vector, expected[number - 1], atol=1e-6)


@pytest.mark.parametrize("most", [-1, True, "5"])
def test_a_wrong_number_of_bad_rows_is_refused(embedder, uri, most):
    with pytest.raises(InputError, match="max_bad is"):
        extract(embedder, ["good"], uri, max_bad=most)


def test_a_vector_of_zeros_is_a_bad_row(embedder, uri, tmp_path, monkeypatch):
    run = embedder._engine.run

    def zeros(batch):
        found = run(batch)
        return {name: values * (batch.input_ids.shape[1] != 6) for name, values in found.items()}

    monkeypatch.setattr(embedder._engine, "run", zeros)
    assert extract(embedder, ["good film", "not very fun"], uri).quarantined == 1
    assert "all zeros" in quarantined(tmp_path)[0]["reason"]


def test_too_many_bad_rows_stop_the_run_which_can_go_on(embedder, uri, tmp_path):
    rows = ["good", "", "bad", "film", "fun", "", "", "not"]
    with pytest.raises(DataError, match="2 rows can't be used, more than --max-bad 1"):
        extract(embedder, rows, uri, max_bad=1)
    assert len(quarantined(tmp_path)) == 2
    assert extract(embedder, rows, uri, max_bad=3).quarantined == 3
    assert len(keys(uri)) == 5


def test_a_run_without_bad_rows_removes_the_file_of_the_one_before(embedder, uri, tmp_path):
    extract(embedder, ["good", ""], uri)
    extract(embedder, ["good", "bad"], uri)
    assert not (tmp_path / "store.db.quarantine.jsonl").exists()


def test_no_file_of_somebody_else_is_overwritten(embedder, uri, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "good"}\n')
    with pytest.raises(InputError, match="no quarantine file"):
        extract(embedder, ["good"], uri, quarantine=path)
    assert path.read_text() == '{"text": "good"}\n'


def test_a_quarantine_file_that_is_read_again_is_not_removed_first(embedder, uri, tmp_path):
    extract(embedder, ["good", ""], uri)
    path = tmp_path / "store.db.quarantine.jsonl"
    before = path.read_text()
    with pytest.raises(InputError, match="a place outside of the inputs"):
        extract(embedder, path, uri)
    assert path.read_text() == before


def test_a_folder_that_is_read_may_not_hold_the_store(embedder, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("good")
    with pytest.raises(InputError, match="a place outside of the inputs"):
        extract(embedder, tmp_path / "notes", f"sqlite:{tmp_path / 'notes/store.db'}")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.txt"]


def test_int8_that_minds_its_mates_runs_each_text_alone(embedder, uri, monkeypatch):
    """The vector of a text is the same beside any others, see `Engine.run_all`."""
    artifact = replace(embedder._engine.artifact, batch_invariant=False)
    monkeypatch.setattr(embedder._engine, "artifact", artifact)
    run, sizes = embedder._engine.run, []

    def noted(batch):
        sizes.append(len(batch.input_ids))
        return run(batch)

    monkeypatch.setattr(embedder._engine, "run", noted)
    extract(embedder, ["good film", "bad film", "not fun"], uri)
    assert sizes == [1, 1, 1]


def test_of_two_rows_at_one_place_only_the_bad_one_is_written_down(sick, uri, tmp_path):
    """Rows of two files of the same name, told apart by their ids."""
    for folder, line in (("one", "a,good"), ("two", "b,very bad")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "notes.csv").write_text(f"id,text\n{line}\n")
    files = [tmp_path / folder / "notes.csv" for folder in ("one", "two")]
    summary = extract(sick, files, uri, id_column="id")
    assert (summary.added, summary.quarantined) == (1, 1)
    assert [row["key"] for row in quarantined(tmp_path)] == ["b"]
