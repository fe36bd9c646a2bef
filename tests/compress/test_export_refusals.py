"""What an export refuses, and what it leaves behind: nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import compress.export
from compress import TrainConfig
from compress.artifacts import exporters
from compress.artifacts import make as artifacts
from compress.artifacts.exporters import ExporterSpec
from compress.bundles import export as export_bundle
from compress.export import ExportConfig, export
from compress.report import load_report
from compress.reporting.records import GateRecord
from compress.reporting.table import format_table
from edgebert.errors import GateError, InputError, ModelError
from edgebert.formats.manifest import Manifest
from edgebert.shell import EXIT_GATE
from tests.compress.exports import embedder_config
from tests.tiny import VOCAB, WORDS, write_classifier, write_encoder, write_sentiment

WORDS_FROM = VOCAB.index(WORDS[0])
ROOT = Path(__file__).parents[2]


def test_without_modules_json_the_pooling_must_be_given(tmp_path):
    with pytest.raises(ModelError, match="--pooling"):
        export(embedder_config(tmp_path, pooling=None))


def test_a_classifier_without_a_head_is_refused(tmp_path):
    write_sentiment(tmp_path / "train.tsv")
    write_encoder(tmp_path / "model")
    config = ExportConfig(
        model=str(tmp_path / "model"),
        output_dir=tmp_path / "b",
        train_file=tmp_path / "train.tsv",
        threads=1,
    )
    with pytest.raises(ModelError, match=r"compress\.train"):
        export(config)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("step", ["train", "export"])
def test_a_tokenizer_of_another_model_is_refused(tmp_path, step):
    write_sentiment(tmp_path / "train.tsv")
    write_classifier(tmp_path / "model", vocab_size=WORDS_FROM)
    settings = {
        "model": str(tmp_path / "model"),
        "output_dir": tmp_path / "b",
        "train_file": tmp_path / "train.tsv",
        "threads": 1,
    }
    config = {"train": TrainConfig, "export": ExportConfig}[step](**settings)
    with pytest.raises(ModelError, match=f"but the model has {WORDS_FROM} tokens"):
        getattr(compress, step)(config)
    assert not (tmp_path / "b").exists()


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="--overwrite-output-dir"):
        export(embedder_config(tmp_path))
    assert (tmp_path / "bundle" / "mine.txt").read_text() == "mine"


def test_nothing_is_written_when_fp32_is_not_the_torch_model(tmp_path, monkeypatch):
    def failed(*_, **__):
        return GateRecord(passed=False, limits={"max_abs": 1e-4}, reasons=("Off by 3.",))

    monkeypatch.setattr(artifacts, "fp32_parity", failed)
    with pytest.raises(GateError, match="Off by 3"):
        export(embedder_config(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "texts.tsv"]


def test_int8_that_is_refused_is_left_out_and_told(tmp_path, monkeypatch):
    def refused(*_, **__):
        return GateRecord(passed=False, limits={"relative_loss": 0.01}, reasons=("Too lossy.",))

    monkeypatch.setattr(artifacts, "int8_gate", refused)
    result = export(embedder_config(tmp_path))
    folder = tmp_path / "bundle"
    assert not (folder / "onnx" / "model_quantized.onnx").exists()
    assert [item.precision for item in Manifest.load(folder).artifacts] == ["fp32"]
    assert "Too lossy." in load_report(folder).refused[0].gate.reasons
    assert "Too lossy." in result.refused[0].gate.reasons
    data = json.loads((folder / "report.json").read_text())["refused"][0]
    assert (data["size_bytes"], data["parity"], data["score"]) == (None, None, None)
    line = next(x for x in format_table(load_report(folder)).splitlines() if "onnx int8" in x)
    assert line.split()[2:5] == ["-", "-", "-"]


@pytest.fixture
def unable(monkeypatch):
    """Put an exporter that can hold no model in the place of OpenVINO's."""
    spec = ExporterSpec("tests.compress.fake_exporter:Unable", ("onnx",), ("first",))
    monkeypatch.setitem(exporters.EXPORTERS, "openvino", spec)


@pytest.mark.usefixtures("unable")
def test_an_engine_that_can_not_hold_the_model_is_left_out_and_told(tmp_path):
    config = embedder_config(tmp_path, backend=("onnx", "openvino"))
    assert compress.export.command(config) == EXIT_GATE
    folder = tmp_path / "bundle"
    assert not (folder / "openvino").exists()
    assert {item.backend for item in Manifest.load(folder).artifacts} == {"onnx"}
    (refused,) = load_report(folder).refused
    assert (refused.backend, refused.precision) == ("openvino", "fp32")
    assert "An operator isn't known." in refused.gate.reasons
    assert "Left out: openvino fp32. An operator isn't known." in (folder / "README.md").read_text()


@pytest.mark.usefixtures("unable")
def test_nothing_is_written_when_no_engine_can_hold_the_model(tmp_path):
    with pytest.raises(GateError, match="openvino: An operator isn't known"):
        export(embedder_config(tmp_path, backend=("openvino",)))
    assert not (tmp_path / "bundle").exists()


def test_engines_that_are_not_installed_are_named_in_the_notes(tmp_path, monkeypatch):
    for name in ("openvino", "tflite"):
        spec = replace(exporters.EXPORTERS[name], requires=("no_such_package",))
        monkeypatch.setitem(exporters.EXPORTERS, name, spec)
    export(embedder_config(tmp_path, backend=()))
    report = load_report(tmp_path / "bundle")
    assert report.passed
    notes = [note for note in report.notes if "no_such_package" in note]
    assert [note.partition(":")[0] for note in notes] == ["openvino", "tflite"]


def test_a_crash_while_writing_leaves_the_old_bundle(tmp_path, monkeypatch):
    export(embedder_config(tmp_path))
    before = (tmp_path / "bundle" / "edgebert.json").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_bundle, "write_manifest", full)
    with pytest.raises(OSError, match="No space left"):
        export(embedder_config(tmp_path, overwrite_output_dir=True))
    assert (tmp_path / "bundle" / "edgebert.json").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle", "model", "texts.tsv"]


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compress.export", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_command_prints_the_table_on_stdout(tmp_path):
    config = embedder_config(tmp_path)
    done = run_command(
        *("--model", config.model, "--task", config.task, "--pooling", "mean"),
        *("--train-file", str(config.train_file), "--output-dir", str(config.output_dir)),
    )
    assert done.returncode == 0, done.stderr
    assert "onnx int8" in done.stdout


def test_a_wrong_recipe_is_named_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match="dynamic"):
        export(embedder_config(tmp_path, recipe=("magic",)))


def test_pooling_is_refused_for_a_classifier(tmp_path):
    with pytest.raises(InputError, match="feature-extraction"):
        ExportConfig(model="minilm", output_dir=tmp_path, pooling="mean")
