"""A bundle with INT4: what is told of it, and what opens, checks, times and cuts it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from compress.report import load_report
from compress.reporting.table import format_table
from edgebert import Runtime
from edgebert.cli import main
from edgebert.formats.manifest import Manifest
from edgebert.shell import EXIT_DONE
from tests.compress.exports import embedder_config
from tests.compress.steps import flags, run_step

pytestmark = pytest.mark.onnx

TEXTS = ["a good film", "the bad one"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int4")
    settings = embedder_config(folder, recipe=("dynamic", "weights-int4"))
    assert run_step("export", *flags(settings)) == EXIT_DONE
    return settings.output_dir


def artifact(bundle, precision):
    return next(a for a in Manifest.load(bundle).artifacts if a.precision == precision)


def told(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == EXIT_DONE
    return json.loads(capsys.readouterr().out)


def test_each_precision_has_a_file_of_its_own_by_the_names_that_others_look_for(bundle):
    assert sorted(path.name for path in (bundle / "onnx").iterdir()) == [
        "model.onnx",
        "model_q4.onnx",
        "model_quantized.onnx",
    ]
    sizes = [artifact(bundle, name).size_bytes for name in ("int4", "int8", "fp32")]
    assert sizes == sorted(sizes)


def test_the_manifest_says_how_it_was_made(bundle):
    recipe = artifact(bundle, "int4").recipe
    assert recipe["quantization"] == "weights-int4"
    assert recipe["matmuls"][0] > 0
    assert recipe["kept_fp32"] == []
    assert "kept_int8" not in artifact(bundle, "int8").recipe


def test_it_is_opened_by_its_name_and_near_to_fp32(bundle):
    vectors = {}
    for precision in ("fp32", "int4"):
        with Runtime(bundle, precision=precision, threads=1) as runtime:
            assert runtime.info.precision == precision
            vectors[precision] = runtime.encode(TEXTS)
    cosines = (vectors["fp32"] * vectors["int4"]).sum(axis=1)
    assert cosines.min() > 0.97
    assert not np.array_equal(vectors["fp32"], vectors["int4"])


def test_info_verify_and_bench_know_it(bundle, capsys):
    info = told(capsys, "info", bundle)
    assert [one["precision"] for one in info["artifacts"]] == ["fp32", "int8", "int4"]
    verdict = told(capsys, "verify", bundle)
    assert {one["self_test"] for one in verdict["artifacts"]} == {"passed"}
    report = told(capsys, "bench", bundle, "--repeats", 1, "--threads", 1)
    times = {row["precision"]: row["latency_ms"]["b1_s8"]["p50"] for row in report["rows"]}
    gain = report["speedup_int4_over_fp32"]["onnx"]["b1_s8"]
    assert gain == pytest.approx(times["fp32"] / times["int4"])


def test_slim_keeps_it_alone(bundle, tmp_path, capsys):
    main(["slim", str(bundle), str(tmp_path / "slim"), "--precision", "int4"])
    capsys.readouterr()
    assert [path.name for path in (tmp_path / "slim" / "onnx").iterdir()] == ["model_q4.onnx"]
    with Runtime(tmp_path / "slim", threads=1) as runtime:
        assert runtime.info.precision == "int4"


def test_table_page_and_card_tell_of_it(bundle):
    report = load_report(bundle)
    (row,) = (one for one in report.rows if one.precision == "int4")
    assert row.gate.passed
    chosen = {one.precision: one.recipe for one in report.candidates if one.chosen}
    assert chosen == {"int8": "dynamic", "int4": "weights-int4"}
    assert "onnx int4" in format_table(report)
    page = (bundle / "report.html").read_text()
    assert "ONNX INT4" in page
    assert "model_q4.onnx" in (bundle / "README.md").read_text()
    assert "--int4:" in page


def test_int4_is_not_made_unless_it_is_asked_for(tmp_path):
    settings = embedder_config(tmp_path)
    for recipe in ((), ("dynamic",)):
        plan = dataclasses.replace(settings, recipe=recipe, backend=()).plan()
        assert all("weights-int4" not in recipes for recipes in plan.recipes.values())
    asked = dataclasses.replace(settings, recipe=("weights-int4",), backend=()).plan()
    assert set(asked.recipes.values()) == {("weights-int4",)}
