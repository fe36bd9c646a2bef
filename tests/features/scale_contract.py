"""What workers owe, wherever they are: the rows, ids and bits of one process, whoever dies."""

from __future__ import annotations

import json
import logging
import shutil
from typing import ClassVar

import pytest

from edgebert.errors import InputError
from edgebert.features import Engine, extract, open_store
from tests.features.extraction import workers
from tests.features.extraction.memory_store import held

WORDS = ("good", "bad", "film", "very", "not", "the", "plot", "fun", "hello", "world")
TEXTS = [" ".join(WORDS[: 1 + i % 10]) + f" {WORDS[i // 10]}" for i in range(60)]
ONE = Engine(threads=1)


def found(uri):
    with open_store(uri, read_only=True) as store:
        return held(store)


class ScaleContract:
    """Tests of workers; ``how`` says what `extract` is told."""

    how: ClassVar[dict[str, object]]

    @pytest.fixture
    def bundle(self, embedder_dir, tmp_path, small_blocks):  # noqa: ARG002
        return shutil.copytree(embedder_dir, tmp_path / "bundle")

    @pytest.fixture
    def send(self, monkeypatch):
        return lambda kind: monkeypatch.setattr("edgebert.features.scaling.Job", kind)

    def extract(self, bundle, rows, uri):
        return extract(bundle, rows, uri, **self.how)

    def test_a_killed_worker_costs_no_row_and_no_bit(self, bundle, tmp_path, send, caplog):
        caplog.set_level(logging.WARNING)
        send(workers.NotedJob)
        killed = workers.kill_one(bundle)
        uri = f"sqlite:{tmp_path / 'team.db'}"
        summary = self.extract(bundle, TEXTS, uri)
        assert len(killed) == 1
        assert "A worker died" in caplog.text
        assert len(list(workers.numbers(bundle).iterdir())) >= 2  # another one went on
        assert (summary.added, summary.held, summary.quarantined) == (60, 60, 0)
        extract(bundle, TEXTS, f"sqlite:{tmp_path / 'alone.db'}", engine=ONE)
        assert found(uri) == found(f"sqlite:{tmp_path / 'alone.db'}")
        again = self.extract(bundle, TEXTS, uri)
        assert (again.added, again.entries, again.unchanged) == (0, 0, 60)

    def test_a_row_that_kills_workers_is_set_aside_and_costs_no_other(
        self, bundle, tmp_path, send, monkeypatch
    ):
        monkeypatch.setattr("edgebert.features.team.DEATHS", 1)  # to start fewer
        send(workers.PoisonedJob)
        rows, uri = TEXTS[:12], f"sqlite:{tmp_path / 'team.db'}"
        rows[6] = f"very {workers.POISON}"
        summary = self.extract(bundle, rows, uri)
        assert (summary.added, summary.quarantined) == (11, 1)
        [line] = (tmp_path / "team.db.quarantine.jsonl").read_text().splitlines()
        row = json.loads(line)
        assert (row["key"], row["text"]) == ("rows:7", "very dull")
        assert row["reason"].startswith("1 workers died of it")
        rows[6] = ""  # as bad, and of the same block
        extract(bundle, rows, f"sqlite:{tmp_path / 'alone.db'}", engine=ONE)
        assert found(uri) == found(f"sqlite:{tmp_path / 'alone.db'}")

    def test_a_worker_with_another_bundle_ends_the_run(self, bundle, tmp_path, send):
        send(workers.OtherJob)
        uri = f"sqlite:{tmp_path / 'team.db'}"
        with pytest.raises(InputError, match="another bundle for this worker"):
            self.extract(bundle, TEXTS, uri)
        assert not (tmp_path / "team.db").exists()
