"""One store, one kind of vectors: what differs is named, and a new store can take its place."""

import shutil

import numpy as np
import pytest

from edgebert.errors import DataError, InputError
from edgebert.features import Engine, extract, open_store, search
from edgebert.features.model import Model
from edgebert.features.switching import finish_switch
from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle
from tests.features.extraction.memory_store import held

TEXTS = ["good film", "a very bad plot", "hello world", "not fun"]


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture
def other_dir(tmp_path):
    """A bundle of another model: CLS instead of mean pooling, another prompt."""
    folder = tmp_path / "other"
    prompts = {"query": "bad "}
    write_bundle(
        folder,
        task="feature-extraction",
        pooling="cls",
        prompts=prompts,
        types=False,
        max_length=16,
    )
    return folder


def found(uri):
    with open_store(uri, read_only=True) as store:
        return held(store)


def test_another_model_is_refused_and_every_difference_named(embedder_dir, other_dir, uri):
    extract(embedder_dir, TEXTS, uri)
    before = found(uri)
    with pytest.raises(InputError, match=r"bundle '.*pooling 'mean', not 'cls'.*prompts.*into-new"):
        extract(other_dir, TEXTS, uri, update=True)
    with pytest.raises(InputError, match="pooling 'mean', not 'cls'"):
        search(uri, "good", other_dir)
    assert found(uri) == before


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"role": None}, "role 'document', not None"),
        ({"dtype": "float16"}, "dtype 'float32', not 'float16'"),
        ({"truncate_dim": 4}, "dim 8, not 4"),
        ({"on_long": "windows"}, "long 'truncate', not 'windows'"),
        ({"token_vectors": True}, "per_token False, not True"),
    ],
)
def test_other_settings_are_refused(embedder, uri, settings, why):
    extract(embedder, TEXTS, uri)
    with pytest.raises(InputError, match=why):
        extract(embedder, TEXTS, uri, **settings)


@pytest.mark.parametrize("dtype", ["float16", "int8", "binary"])
def test_the_same_settings_are_the_same_identity_after_a_rerun(embedder, uri, dtype):
    settings = {"dtype": dtype, "truncate_dim": 8, "on_long": "chunks"}
    extract(embedder, TEXTS, uri, **settings)
    assert extract(embedder, TEXTS, uri, **settings).unchanged == 4
    hits = search(uri, TEXTS[0], embedder, role="document")
    best = {hit.entry.text for hit in hits if hit.score == hits[0].score}  # 8 bits may be the same
    assert hits[0].score > 0.99
    assert TEXTS[0] in best


def test_another_model_after_a_stopped_run_is_refused_too(embedder, other_dir, uri, monkeypatch):
    monkeypatch.setattr("edgebert.features.pipeline.BLOCK_ROWS", 1)

    def rows():
        yield from TEXTS[:3]
        raise KeyError("stop")

    with pytest.raises(KeyError):
        extract(embedder, rows(), uri)
    with pytest.raises(InputError, match="pooling"):
        extract(other_dir, TEXTS, uri)
    assert extract(embedder, TEXTS, uri).held == 4


def test_a_store_tells_which_artifact_made_it(tmp_path, uri):
    folder = tmp_path / "both"
    write_bundle(folder, task="feature-extraction", precisions=("fp32", "int8"), max_length=16)
    extract(folder, TEXTS, uri, engine=Engine(precision="int8", max_length=8))
    assert extract(folder, TEXTS, uri).unchanged == 4  # auto would have taken either
    assert len(search(uri, "good", folder)) == 4
    with pytest.raises(InputError, match="precision 'int8', not 'fp32'"):
        extract(folder, TEXTS, uri, engine=Engine(precision="fp32"))


def test_into_new_embeds_anew_and_takes_the_place(embedder_dir, other_dir, uri, tmp_path):
    extract(embedder_dir, TEXTS, uri)
    extract(other_dir, TEXTS[:3], uri, into_new=True)
    extract(other_dir, TEXTS[:3], f"sqlite:{tmp_path / 'fresh.db'}")
    assert found(uri) == found(f"sqlite:{tmp_path / 'fresh.db'}")
    assert not list(tmp_path.glob("*new*"))


@pytest.mark.parametrize("folder", [False, True])
def test_into_new_replaces_nothing_but_a_store(embedder, tmp_path, folder):
    place = tmp_path / "letters"
    letter = place / "letter.txt" if folder else place
    letter.parent.mkdir(exist_ok=True)
    letter.write_text("Dear")
    with pytest.raises(InputError, match="--into-new replaces nothing else"):
        extract(embedder, TEXTS, f"sqlite:{place}", into_new=True)
    assert letter.read_text() == "Dear"
    assert not list(tmp_path.glob("*.new"))


def test_into_new_begins_a_store_where_none_is(embedder, tmp_path):
    uri = f"sqlite:{tmp_path / 'first.db'}"
    assert extract(embedder, TEXTS, uri, into_new=True).held == 4


def test_what_a_stopped_into_new_left_is_told(embedder, uri):
    extract(embedder, TEXTS, uri)
    extract(embedder, TEXTS, f"{uri}.new", dtype="binary")
    with pytest.raises(InputError, match=r"remove .*store\.db\.new to begin anew"):
        extract(embedder, TEXTS, uri, into_new=True)


@pytest.mark.parametrize("kind", ["sqlite", "npy"])
def test_into_new_through_a_link_replaces_what_it_points_to(embedder, tmp_path, kind):
    real, link = tmp_path / "real", tmp_path / "link"
    extract(embedder, TEXTS, f"{kind}:{real}")
    link.symlink_to(real, target_is_directory=real.is_dir())
    extract(embedder, TEXTS[:2], f"{kind}:{link}", into_new=True)
    assert link.is_symlink()
    with open_store(f"{kind}:{real}", read_only=True) as store:
        assert len(store) == 2


def test_into_new_leaves_the_old_store_until_it_is_whole(embedder_dir, other_dir, uri, monkeypatch):
    monkeypatch.setattr("edgebert.features.pipeline.BLOCK_ROWS", 1)
    extract(embedder_dir, TEXTS, uri)
    before = found(uri)
    embed, count = Model.embed, []

    def failing(self, prepared):
        count.append(1)
        if len(count) == 4:
            raise RuntimeError("no power")
        return embed(self, prepared)

    monkeypatch.setattr(Model, "embed", failing)
    with pytest.raises(RuntimeError):
        extract(other_dir, TEXTS, uri, into_new=True)
    assert found(uri) == before
    summary = extract(other_dir, TEXTS, uri, into_new=True)
    assert summary.unchanged > 0  # it went on
    with Runtime(other_dir) as runtime, open_store(uri, read_only=True) as store:
        [entry] = [e for e in store.entries(list(store.ids())) if e.text == TEXTS[0]]
        expected = runtime.encode(TEXTS[:1], role="document")
        np.testing.assert_allclose(store.get([entry.id]), expected, atol=1e-6)


def test_a_kill_between_the_two_renames_of_a_folder_is_put_right(tmp_path):
    place, new, old = (tmp_path / n for n in ("s", "s.new", ".s.edgebert-old"))
    for folder, name in ((new, "new"), (old, "old")):
        folder.mkdir()
        (folder / name).touch()
    finish_switch(place)
    assert [p.name for p in place.iterdir()] == ["new"]
    assert not new.exists()
    assert not old.exists()


def test_into_new_is_not_offered_for_a_server(embedder):
    with pytest.raises(InputError, match="isn't offered for postgresql"):
        extract(embedder, TEXTS, "postgresql://host/db", into_new=True)


def test_a_store_that_was_removed_is_made_anew_though_a_journal_stays(embedder, memory, opened):
    extract(embedder, TEXTS, memory)
    from tests.features.extraction.memory_store import MemoryStore

    MemoryStore.places.clear()
    assert extract(embedder, TEXTS, memory).added == 4
    with opened(memory) as store:
        assert len(store) == 4


def test_a_store_whose_journal_was_removed_gets_one_and_no_double(embedder, memory, opened):
    extract(embedder, TEXTS, memory)
    with opened(memory) as store:
        before = held(store)
        shutil.rmtree(store.location)
    assert extract(embedder, TEXTS[:3], memory, update=True).removed == 1
    assert extract(embedder, TEXTS, memory).added == 1
    with opened(memory) as store:
        assert held(store) == before


def test_entries_that_somebody_removed_come_back(embedder, memory, opened, caplog):
    extract(embedder, TEXTS, memory)
    with opened(memory) as store:
        before = held(store)
        store.delete(list(store.ids())[:2])
    summary = extract(embedder, TEXTS, memory)
    assert (summary.unchanged, summary.entries) == (2, 2)
    assert "lacks entries" in caplog.text
    with opened(memory) as store:
        assert held(store) == before


def test_a_store_emptied_says_that_it_may_be_removed(embedder, uri, opened):
    extract(embedder, ["good"], uri)
    with opened(uri) as store:
        store.delete(list(store.ids()))
    with pytest.raises(InputError, match="It holds no entry, so it may be removed"):
        extract(embedder, ["good"], uri, role="query")


def test_a_store_is_not_replaced_by_one_without_a_row(embedder, tmp_path):
    uri = f"sqlite:{tmp_path / 'store.db'}"
    extract(embedder, ["good"], uri)
    with pytest.raises(DataError, match=r"No row can be used, so .* stays as it is"):
        extract(embedder, [""], uri, into_new=True)
    with open_store(uri) as store:
        assert len(store) == 1
