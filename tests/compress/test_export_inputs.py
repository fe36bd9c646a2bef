"""Which texts an export takes, and which scores and origins it tells."""

from __future__ import annotations

import json
import logging
from itertools import pairwise

import pytest

from compress.bundles import inputs as export_inputs
from compress.bundles.inputs import load_inputs
from compress.bundles.lineage import earlier_steps
from compress.data.load import load_data
from compress.export import ExportConfig, export
from compress.settings import DataConfig
from edgebert.errors import ModelError
from edgebert.formats.manifest import MANIFEST_NAME, Manifest
from tests.compress.exports import embedder_config
from tests.tiny import WORDS, write_classifier


@pytest.fixture
def embedded(monkeypatch, tmp_path):
    """Stand in for the embedded data: labelled a and b as a class, texts alone otherwise."""
    path = tmp_path / "embedded.tsv"
    rows = [f"the {word} film\t{'ab'[i % 2]}" for i, word in enumerate(WORDS * 4)]
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n")

    def load(_config, *, task, seed):
        return load_data(DataConfig(task=task, train_file=path), task=task, seed=seed)

    monkeypatch.setattr(export_inputs, "load_data", load)


def inputs_of(folder):
    config = ExportConfig(model=str(folder), output_dir=folder / "b")
    return load_inputs(config, folder)[0]


@pytest.mark.usefixtures("embedded")
def test_a_bundle_of_pairs_is_exported_again_with_pairs_where_no_data_is_given(
    tmp_path, monkeypatch
):
    write_classifier(tmp_path / "model")
    (tmp_path / "model" / MANIFEST_NAME).write_text("{}")
    known = type("Pairs", (), {"pairs": True})
    monkeypatch.setattr(Manifest, "load", lambda _: known)
    data = inputs_of(tmp_path / "model")
    assert data.dev.text_pairs is not None
    assert len(data.dev.text_pairs) == len(data.dev)


@pytest.mark.usefixtures("embedded")
def test_a_classifier_without_data_takes_single_texts_and_that_is_said(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    write_classifier(tmp_path / "model")
    assert inputs_of(tmp_path / "model").dev.text_pairs is None
    assert "--text-pair-column" in caplog.text


def test_a_dev_score_of_another_metric_is_left_out(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    rows = [f"the {a} film\ta {b} plot\t{i % 5}" for i, (a, b) in enumerate(pairwise(WORDS))]
    pairs.write_text("sentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n")
    config = embedder_config(tmp_path, dev_file=None, test_file=pairs)
    export(config)
    report = json.loads((tmp_path / "bundle" / "report.json").read_text())
    assert report["metric"] == "spearman"
    assert [one["dev_score"] for one in (report["teacher"], *report["rows"])] == [None] * 3


def test_a_trained_checkpoint_brings_its_run_into_the_lineage(lab):
    (step,) = earlier_steps(lab.teacher)
    assert (step["step"], step["seed"]) == ("train", 42)
    assert step["config"]["model"] == str(lab.encoder)
    assert earlier_steps(lab.encoder) == ()


def test_a_damaged_run_json_is_named(tmp_path):
    (tmp_path / "run.json").write_text("[")
    with pytest.raises(ModelError, match=r"run\.json can't be read"):
        earlier_steps(tmp_path)
