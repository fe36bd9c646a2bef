"""What is told of a model in segments: a table, a section of the page, a round trip."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from compress.bundles.model_card import model_card
from compress.report import ExitRecord, GateRecord, load_report, write_report
from compress.reporting.exit_records import DepthRecord
from compress.reporting.html import render_html
from compress.reporting.table import format_table
from tests.compress.sample_report import sample_report

PASSED = ExitRecord(
    backend="onnx",
    precision="fp32",
    budget=0.005,
    gate=GateRecord(passed=True, limits={"max_abs": 1e-4}),
    size_bytes=43_000_000,
    threshold=0.3125,
    dev_layers=1.75,
    layers=1.8,
    dev_score=0.911,
    score=0.909,
    depths=(
        DepthRecord(layers=1, dev_score=0.85, score=0.84),
        DepthRecord(layers=2, dev_score=0.912, score=0.913),
    ),
)
REFUSED = ExitRecord(
    backend="openvino",
    precision="int8",
    budget=0.005,
    gate=GateRecord(passed=False, limits={}, reasons=("accuracy <fell>.",)),
)
REPORT = replace(sample_report(), exits=(PASSED, REFUSED))


def test_the_table_has_a_line_for_leaving_early_and_one_for_each_depth():
    lines = [line.split() for line in format_table(REPORT).splitlines()]
    first = "onnx fp32 early, entropy < 0.312 1.80 0.9110 0.9090 43.0 MB passed"
    at = lines.index(first.split())
    assert lines[at + 1] == ["after", "layer", "1", "1", "0.8500", "0.8400"]
    assert lines[at + 2] == ["after", "layer", "2", "2", "0.9120", "0.9130"]
    assert lines[at + 3] == ["openvino", "int8", "-", "-", "-", "-", "-", "REFUSED"]


def test_a_refusal_of_segments_is_told_and_the_report_has_not_passed():
    assert "refused openvino int8 in segments: accuracy <fell>." in format_table(REPORT)
    assert not REPORT.passed
    assert replace(sample_report(), refused=(), exits=(PASSED,)).passed


def test_the_page_shows_them_and_escapes_the_reasons():
    page = render_html(REPORT)
    assert "<h2>Early exit</h2>" in page
    assert "accuracy &lt;fell&gt;." in page
    assert "Early exit" not in render_html(sample_report())


def test_the_model_card_says_how_texts_leave_early_and_at_how_many_layers(tmp_path):
    manifest = SimpleNamespace(
        task="text-classification", pairs=False, pooling=None, labels=(), max_length=64
    )
    card = model_card(REPORT, SimpleNamespace(manifest=manifest), tmp_path)
    assert "early_exit=True)` lets sure texts leave early" in card
    assert "onnx fp32: 1.80 of 2 layers on average, accuracy 0.9090." in card


def test_they_are_read_back_from_report_json(tmp_path):
    write_report(REPORT, tmp_path)
    assert load_report(tmp_path).exits == (PASSED, REFUSED)
