"""report.json says what the design fixes, derived by hand here, and is checked both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from compress.report import Latency, load_report, main, write_report
from edgebert.errors import BundleError, InputError
from tests.compress.sample_report import (
    fp32_row,
    int8_row,
    refused_row,
    sample_report,
    teacher,
)


def written(directory, report):
    write_report(report, directory)
    return json.loads((directory / "report.json").read_text(encoding="utf-8"))


def test_retention_is_the_score_over_the_teachers(tmp_path):
    rows = (replace(int8_row(), score=0.6),)
    report = replace(sample_report(rows=rows), teacher=replace(teacher(), score=0.8))
    assert written(tmp_path, report)["rows"][0]["retention"] == pytest.approx(0.75)


@pytest.mark.parametrize("score", [None, 0.0, -0.1])
def test_retention_is_missing_when_the_teacher_has_no_score_above_0(tmp_path, score):
    report = replace(sample_report(), teacher=replace(teacher(), score=score))
    assert written(tmp_path, report)["rows"][0]["retention"] is None


def test_speedup_compares_the_medians_of_one_text_of_32_tokens(tmp_path):
    rows = (replace(int8_row(), latency_ms={"b1_s32": Latency(2.0, 9.0)}),)
    slow = replace(teacher(), latency_ms={"b1_s32": Latency(13.0, 50.0)})
    report = replace(sample_report(rows=rows), teacher=slow)
    assert written(tmp_path, report)["rows"][0]["speedup_vs_teacher"] == 6.5


def test_the_teachers_size_is_four_bytes_a_parameter(tmp_path):
    report = replace(sample_report(), teacher=replace(teacher(), params=1000))
    assert written(tmp_path, report)["teacher"]["size_bytes"] == 4000


def test_report_json_has_the_fields_of_the_design(tmp_path):
    data = written(tmp_path, sample_report())
    assert {"teacher", "student", "metric", "split", "data", "rows", "gate"} <= set(data)
    assert {"machine", "seconds"} <= set(data)
    assert {"requested", "used", "params", "size_bytes", "score"} <= set(data["teacher"])
    assert all({"rows", "sha256"} <= set(split) for split in data["data"].values())
    row = data["rows"][1]
    assert {"backend", "precision", "path", "size_bytes", "score", "retention"} <= set(row)
    assert set(row["parity"]) == {"max_abs", "cosine_min"}
    assert row["latency_ms"]["b1_s32"] == {"p50": 1.87, "p95": 2.02}
    assert {"texts_per_s", "speedup_vs_teacher"} <= set(row)
    assert {"passed", "split", "limits"} <= set(data["gate"])


def test_a_refused_artifact_is_no_row_and_fails_the_gate(tmp_path):
    data = written(tmp_path, sample_report(refused=(refused_row(),)))
    assert [row["backend"] for row in data["rows"]] == ["onnx", "onnx"]
    assert data["refused"][0]["gate"]["reasons"]
    assert data["gate"]["passed"] is False


def test_a_report_reads_back_as_it_was(tmp_path):
    report = sample_report(refused=(refused_row(),))
    write_report(report, tmp_path)
    assert load_report(tmp_path) == report


def test_a_report_from_before_phases_named_their_metric_is_read(tmp_path):
    data = written(tmp_path, sample_report())
    for phase in data["phases"]:
        phase.pop("metric")
    (tmp_path / "report.json").write_text(json.dumps(data), encoding="utf-8")
    assert [phase.metric for phase in load_report(tmp_path).phases] == ["", ""]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_named_and_nothing_is_written(tmp_path, bad):
    report = sample_report(rows=(fp32_row(), replace(int8_row(), score=bad)))
    with pytest.raises(InputError, match=r"rows\[1\]\.score is (nan|inf)"):
        write_report(report, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["teacher"].pop("params"), "teacher has no 'params'"),
        (lambda data: data.pop("rows"), "has no 'rows'"),
        (lambda data: data["teacher"].update(params="many"), "teacher.params must be int"),
        (lambda data: data["rows"][0].update(score=True), r"rows\[0\].score must be float"),
        (lambda data: data["rows"][0].update(interval=[0.1]), "must have 2 items, not 1"),
        (lambda data: data.update(seconds=[]), "seconds must be an object"),
        (lambda data: data.update(rows={}), "rows must be a list"),
        (lambda data: data.update(report_version=99), "report_version 99"),
    ],
)
def test_a_field_that_is_not_as_it_must_be_is_named(tmp_path, change, message):
    data = written(tmp_path, sample_report())
    change(data)
    (tmp_path / "report.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(BundleError, match=message):
        load_report(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '"report"'])
def test_a_report_that_is_no_json_object_is_refused(tmp_path, text):
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=r"report\.json"):
        load_report(tmp_path)


@pytest.mark.parametrize("flags", [[], ["--model"]])
def test_the_command_draws_the_page_again_and_prints_the_table(tmp_path, capsys, flags):
    write_report(sample_report(), tmp_path)
    page = tmp_path / "report.html"
    before = page.read_text(encoding="utf-8")
    page.unlink()
    assert main([*flags, str(tmp_path)]) == 0
    assert page.read_text(encoding="utf-8") == before
    assert "onnx int8" in capsys.readouterr().out


def test_the_command_ends_with_one_line_where_there_is_no_report(tmp_path):
    command = [sys.executable, "-m", "compress.report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "has no report.json" in done.stderr
