"""No row is lost or doubled: reruns, updates, and a power cut at every step."""

import signal
from contextlib import suppress

import pytest

from edgebert.errors import DataError, InputError, StoreError
from edgebert.features import extract
from edgebert.features.model import Model
from tests.features.extraction.memory_store import MemoryStore, PowerCut, held

OLD = [(f"k{i}", f"good film {'abcdefghij'[i]}") for i in range(10)]
# k0 and k5 are changed, k3 is gone, k10 is new
NEW = [(key, "very dull" if key in ("k0", "k5") else text) for key, text in OLD if key != "k3"]
NEW.append(("k10", "hello"))


@pytest.fixture
def runs(embedder, uri, opened, small_blocks):  # noqa: ARG001
    """Extract into one store; and give what it holds."""

    class Runs:
        def __call__(self, rows, to=uri, **settings):
            return extract(embedder, rows, to, **settings)

        def held(self, to=uri):
            with opened(to) as store:
                return held(store)

    return Runs()


def texts_of(found):
    return sorted((entry.key, entry.text) for entry, _ in found)


def test_a_second_run_adds_nothing_and_embeds_nothing(runs, monkeypatch):
    first = runs(OLD)
    before = runs.held()
    assert (first.rows, first.added, first.entries, first.held) == (10, 10, 10, 10)
    monkeypatch.setattr(Model, "prepare", None)  # it would fail if it were called
    MemoryStore.calls.clear()
    second = runs(OLD)
    assert (second.rows, second.unchanged, second.added, second.entries) == (10, 10, 0, 0)
    assert MemoryStore.calls == []
    assert runs.held() == before


def test_a_block_is_one_call_of_the_store(embedder, memory, small_blocks):  # noqa: ARG001
    extract(embedder, OLD, memory)
    assert MemoryStore.calls.count("write") == 3  # blocks of 4, 4 and 2


def test_what_changed_is_left_alone_and_counted_without_update(runs, caplog):
    runs(OLD)
    summary = runs(NEW)
    assert (summary.added, summary.kept, summary.removed) == (1, 2, 0)
    assert texts_of(runs.held()) == sorted([*OLD, ("k10", "hello")])
    assert "2 rows have changed since" in caplog.text


def test_update_embeds_what_is_new_or_changed_and_removes_what_is_gone(runs, monkeypatch):
    runs(OLD)
    seen = []
    prepare = Model.prepare

    def noted(self, rows):
        seen.extend(row.key for row in rows)
        return prepare(self, rows)

    monkeypatch.setattr(Model, "prepare", noted)
    summary = runs(NEW, update=True)
    assert seen == ["k0", "k5", "k10"]
    counts = (summary.added, summary.changed, summary.unchanged, summary.removed)
    assert counts == (1, 2, 7, 1)
    assert texts_of(runs.held()) == sorted(NEW)


def test_changed_metadata_is_a_change(runs, opened, uri):
    row = {"id": "a", "text": "good", "year": 1}
    columns = {"id_column": "id", "metadata_columns": ("year",)}
    runs([row], **columns)
    assert runs([{**row, "year": 2}], update=True, **columns).changed == 1
    with opened(uri) as store:
        assert [entry.metadata for entry in store.entries(list(store.ids()))] == [{"year": 2}]


def test_new_vectors_are_written_before_old_ones_go(embedder, memory, small_blocks):  # noqa: ARG001
    extract(embedder, OLD, memory)
    MemoryStore.calls.clear()
    extract(embedder, NEW, memory, update=True)
    steps = [name for name in MemoryStore.calls if name in ("put", "write", "delete")]
    assert steps[:4] == ["put", "write", "delete", "put"]


def test_old_rows_survive_an_engine_that_fails(runs, monkeypatch):
    runs(OLD)
    before = runs.held()

    def broken(self, prepared):  # noqa: ARG001
        raise RuntimeError("no memory")

    monkeypatch.setattr(Model, "embed", broken)
    with pytest.raises(RuntimeError, match="no memory"):
        runs(NEW, update=True)
    assert runs.held() == before
    monkeypatch.undo()


def steps_of(run):
    """Count the steps of a run."""
    MemoryStore.calls.clear()
    run()
    return len(MemoryStore.calls)


def cut_at(step):
    def fail(name, number):
        if number == step:
            raise PowerCut(name)

    return staticmethod(fail)


@pytest.mark.parametrize("update", [False, True])
def test_a_power_cut_at_any_step_loses_and_doubles_nothing(runs, uri, update, monkeypatch):
    """Each step of a run is its last one once; the next run ends with what an unbroken one has."""
    old, new = OLD[2:8], NEW[2:7]  # two blocks
    whole = f"{uri}-whole"

    def run(to):
        return runs(new if update else old, to, update=update)

    if update:
        runs(old, whole)
    steps = steps_of(lambda: run(whole))
    assert steps >= 4
    for step in range(1, steps + 1):
        place = f"{uri}-{step}"
        if update:
            runs(old, place)
        MemoryStore.calls.clear()
        monkeypatch.setattr(MemoryStore, "fail", cut_at(step))
        with pytest.raises(PowerCut):
            run(place)
        monkeypatch.setattr(MemoryStore, "fail", staticmethod(lambda name, number: None))  # noqa: ARG005
        run(place)
        assert runs.held(place) == runs.held(whole), step
        assert run(place).entries == 0


def test_a_row_that_changes_again_after_a_power_cut_leaves_no_orphan(runs, monkeypatch):
    runs(OLD)
    for step in range(1, 9):
        MemoryStore.calls.clear()
        monkeypatch.setattr(MemoryStore, "fail", cut_at(step))
        with suppress(PowerCut):
            runs([("k0", f"bad {step}"), *OLD[1:]], update=True)
        monkeypatch.setattr(MemoryStore, "fail", cut_at(0))
        runs([("k0", "fun"), *OLD[1:]], update=True)
        assert texts_of(runs.held()) == sorted([("k0", "fun"), *OLD[1:]]), step


def test_ctrl_c_stops_cleanly_and_the_next_run_goes_on(runs, monkeypatch, uri):
    runs(OLD, f"{uri}-whole")
    embed, count = Model.embed, []

    def interrupted(self, prepared):
        count.append(len(prepared.rows))
        if len(count) == 2:
            signal.raise_signal(signal.SIGINT)
        return embed(self, prepared)

    monkeypatch.setattr(Model, "embed", interrupted)
    with pytest.raises(KeyboardInterrupt, match="goes on from there"):
        runs(OLD)
    assert 0 <= len(runs.held()) < 10
    runs(OLD)
    assert runs.held() == runs.held(f"{uri}-whole")


def test_a_store_that_fails_twice_is_tried_again(runs, monkeypatch, uri):
    def fail(name, number):
        if number in (1, 2):
            raise StoreError(f"busy at {name}.")

    monkeypatch.setattr(MemoryStore, "fail", staticmethod(fail))
    assert runs(OLD).added == 10
    assert len(runs.held(uri)) == 10


def test_a_store_that_goes_on_failing_stops_the_run_which_goes_on_later(runs, monkeypatch):
    def fail(name, number):  # noqa: ARG001
        if len(MemoryStore.calls) > 2:
            raise StoreError("The disk is full.")

    monkeypatch.setattr(MemoryStore, "fail", staticmethod(fail))
    with pytest.raises(StoreError, match="It failed 3 times"):
        runs(OLD)
    monkeypatch.setattr(MemoryStore, "fail", staticmethod(lambda name, number: None))  # noqa: ARG005
    runs(OLD)
    assert texts_of(runs.held()) == sorted(OLD)


@pytest.mark.parametrize("update", [False, True])
def test_rows_whose_first_write_failed_are_added_and_others_changed(runs, update, monkeypatch):
    """Whatever a full disk had begun: only what the store never had is added."""
    old = OLD[2:] if update else []  # k0, k1, k10 are then new, and k5 is changed
    if update:
        runs(old)
    MemoryStore.calls.clear()
    monkeypatch.setattr(MemoryStore, "fail", staticmethod(_full))
    with pytest.raises(StoreError, match="It failed 3 times"):
        runs(NEW, update=update)
    monkeypatch.setattr(MemoryStore, "fail", staticmethod(lambda name, number: None))  # noqa: ARG005
    summary = runs(NEW, update=update)
    assert (summary.added, summary.changed) == ((3, 1) if update else (10, 0))


def test_a_journal_that_outlived_its_store_says_nothing_of_the_next_one(
    embedder,
    memory,
    small_blocks,  # noqa: ARG001
    caplog,
):
    """As one of a server's has, whose collection was dropped."""
    rows = [(f"k{i}", "good film") for i in range(24)]  # more blocks than wait at once
    extract(embedder, rows, memory)
    MemoryStore.places.clear()
    summary = extract(embedder, rows[:-1], memory)
    assert (summary.added, summary.unchanged, summary.held) == (23, 0, 23)
    assert "a store that is gone" in caplog.text
    caplog.clear()
    assert extract(embedder, rows, memory).added == 1
    assert caplog.text == ""


def _full(name, number):  # noqa: ARG001
    if name == "write":
        raise StoreError("The disk is full.")


@pytest.mark.parametrize("again", [2, 7])  # in the same block, and in the next one
def test_two_rows_of_one_key_stop_the_run(runs, again):
    rows = [*OLD[:again], ("k1", "bad"), *OLD[again:]]
    with pytest.raises(DataError, match=rf"rows:{again + 1} has the key 'k1'"):
        runs(rows)


def test_a_source_without_rows_removes_nothing(runs):
    runs(OLD)
    with pytest.raises(DataError, match="no rows"):
        runs(iter(()), update=True)
    assert len(runs.held()) == 10


def test_a_bad_row_without_key_keeps_update_from_removing(runs, caplog):
    runs(OLD)
    summary = runs([*OLD[:5], (None, "bad")], update=True)
    assert (summary.removed, summary.quarantined) == (0, 1)
    assert "none is removed" in caplog.text


def test_a_row_that_went_bad_keeps_what_was_stored_of_it(runs):
    runs(OLD)
    summary = runs([*OLD[:9], ("k9", "")], update=True)
    assert (summary.removed, summary.quarantined) == (0, 1)
    assert texts_of(runs.held()) == sorted(OLD)


def test_a_second_run_at_once_is_refused(runs):
    def rows():
        yield from OLD[:2]
        with pytest.raises(InputError, match="Another run is writing"):
            runs(OLD)
        yield from OLD[2:]

    assert runs(rows()).added == 10
    assert runs(OLD).unchanged == 10  # and the lock is free again
