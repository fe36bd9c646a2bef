"""The step that tries every way to INT8: all are told, and the best is in the bundle."""

from __future__ import annotations

import dataclasses
import json

import pytest

from compress.artifacts.exporters import get_exporter
from compress.options import load_run
from compress.quantize import QuantizeConfig
from compress.report import load_report
from compress.reporting.candidates import format_candidates
from compress.reporting.records import CandidateRecord
from edgebert.formats.manifest import Manifest
from edgebert.shell import EXIT_DONE, EXIT_INTERRUPTED
from tests.compress.exports import embedder_config
from tests.compress.steps import flags, run_step

RECIPES = ("dynamic", "blockwise")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    plain = dataclasses.asdict(embedder_config(tmp_path_factory.mktemp("quantize")))
    return QuantizeConfig(**{**plain, "recipe": RECIPES})


@pytest.fixture(scope="module")
def bundle(settings):
    assert run_step("quantize", *flags(settings)) == EXIT_DONE
    return settings.output_dir


@pytest.fixture(scope="module")
def candidates(bundle):
    return json.loads((bundle / "quantize.json").read_text())["candidates"]


def test_every_recipe_of_every_engine_is_tried_unless_some_are_asked_for(settings):
    plan = dataclasses.replace(settings, backend=(), recipe=()).plan()
    for backend, recipes in plan.recipes.items():
        assert recipes == tuple(get_exporter(backend).recipes)
    assert settings.plan().recipes == {"onnx": RECIPES}


def test_each_candidate_stands_in_the_file_with_what_was_measured(candidates):
    assert [one["recipe"] for one in candidates] == list(RECIPES)
    for one in candidates:
        assert one["passed"], one["reasons"]
        assert one["matmuls"][0] == one["matmuls"][1] > 0
        assert one["size_bytes"] > 0
        assert one["latency_ms"] > 0
        assert 0 < one["error"] < 0.1


def test_the_chosen_one_is_the_artifact_in_the_bundle(bundle, candidates):
    (chosen,) = (one for one in candidates if one["chosen"])
    (artifact,) = (a for a in Manifest.load(bundle).artifacts if a.precision == "int8")
    assert artifact.recipe["quantization"] == chosen["recipe"]
    assert artifact.size_bytes == chosen["size_bytes"]
    assert sorted(path.name for path in (bundle / "onnx").iterdir()) == [
        "model.onnx",
        "model_quantized.onnx",
    ]


def test_the_report_has_the_candidates_and_the_command_of_this_step(bundle, candidates):
    report = load_report(bundle)
    assert [one.recipe for one in report.candidates] == [one["recipe"] for one in candidates]
    assert report.command.startswith("python -m compress.quantize ")
    assert "Ways to INT8" in (bundle / "report.html").read_text()


def test_the_lineage_names_the_step_and_its_run_can_be_replayed(bundle):
    assert [step["step"] for step in Manifest.load(bundle).lineage] == ["quantize"]
    assert load_run(QuantizeConfig, bundle / "run.json")["recipe"] == RECIPES


def test_an_interrupt_leaves_nothing_behind(settings, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("compress.artifacts.make.one_text_latency", interrupt)
    other = dataclasses.replace(settings, output_dir=tmp_path / "other")
    assert run_step("quantize", *flags(other)) == EXIT_INTERRUPTED
    assert list(tmp_path.iterdir()) == []


def test_the_table_tells_the_chosen_the_refused_and_the_parts_in_fp32():
    found = [
        CandidateRecord(
            backend="onnx",
            recipe="dynamic",
            passed=True,
            chosen=True,
            size_bytes=22_900_000,
            dev_score=0.91,
            error=0.0123,
            latency_ms=2.25,
            matmuls=(30, 36),
            kept_fp32=("layer.0/ffn-down",),
        ),
        CandidateRecord(
            backend="onnx", recipe="static", passed=False, chosen=False, reasons=("It collapsed.",)
        ),
    ]
    lines = format_candidates(found).splitlines()
    first, second = (line.split() for line in lines if line.startswith("onnx"))
    assert first[-3:] == ["CHOSEN,", "FP32:", "layer.0/ffn-down"]
    assert {"22.9", "1.2e-02", "2.25", "30/36"} <= set(first)
    assert second[-1] == "REFUSED"
    assert lines[-1] == "refused onnx static: It collapsed."
